// SPDX-License-Identifier: Apache-2.0
// What Grafana shows of Prometheus' responses, by Grafana's own package @grafana/data: transformations, defaults,
// overrides, thresholds, mappings. What is in Grafana's application, and in no package, is stated here in our words,
// each with its file in github.com/grafana/grafana.

import {readFileSync, readdirSync} from 'node:fs';
import {createRequire} from 'node:module';

import {JSDOM} from 'jsdom';

const page = new JSDOM('', {url: 'http://localhost/'});
page.window.matchMedia = () => ({matches: false, addEventListener() {}, removeEventListener() {}});
Object.assign(globalThis, {window: page.window, document: page.window.document, navigator: page.window.navigator});
const require = createRequire(import.meta.url); // its ES modules name no extensions
const grafana = require(process.env.GRAFANA_DATA ?? '@grafana/data');
const {firstValueFrom} = require('rxjs');

const {FieldColorModeId, FieldType, ThresholdsMode} = grafana;
const THEME = grafana.createTheme({colors: {mode: 'dark'}});
export const RED = new Set(['red', 'orange'].map(name => THEME.visualization.getColorByName(name)));

grafana.standardTransformersRegistry.setInit(() =>
  [...new Map(Object.values(grafana.standardTransformers).map(one => [one.id, one])).values()].map(one => ({
    id: one.id, name: one.name, transformation: one,
  })),
);
// public/app/core/components/OptionsUI/registry.tsx: without thresholds of its own a panel has red from 80 on.
const RED_FROM_80 = {
  mode: ThresholdsMode.Absolute,
  steps: [{value: -Infinity, color: 'green'}, {value: 80, color: 'red'}],
};
const STANDARD = {
  unit: grafana.unitOverrideProcessor,
  min: grafana.numberOverrideProcessor,
  max: grafana.numberOverrideProcessor,
  decimals: grafana.numberOverrideProcessor,
  displayName: grafana.displayNameOverrideProcessor,
  noValue: grafana.stringOverrideProcessor,
  color: grafana.identityOverrideProcessor,
  thresholds: grafana.thresholdsOverrideProcessor,
  mappings: grafana.valueMappingsOverrideProcessor,
  links: grafana.dataLinksOverrideProcessor,
};
grafana.standardFieldConfigEditorRegistry.setInit(() =>
  Object.entries(STANDARD).map(([id, process]) => ({
    id, path: id, name: id, process, shouldApply: () => true,
    defaultValue: {thresholds: RED_FROM_80, color: {mode: FieldColorModeId.Thresholds}, mappings: [], links: []}[id],
  })),
);

// module.tsx of each panel in public/app/plugins/panel/: which of them colour by series when nothing else is said.
const BY_SERIES = new Set(['timeseries', 'trend']);

// Options of a field that only some panels know (custom.*), of those that are looked at.
const OF_A_PANEL = ['cellOptions', 'hideFrom', 'lineStyle'];

function plugin(type) {
  const made = new grafana.PanelPlugin(() => null);
  made.meta = {id: type, name: type};
  const palette = {defaultValue: {mode: FieldColorModeId.PaletteClassic}, settings: {byValueSupport: true}};
  return made.useFieldConfig({
    standardOptions: BY_SERIES.has(type) ? {[grafana.FieldConfigProperty.Color]: palette} : {},
    useCustomConfig: builder => OF_A_PANEL.forEach(id => builder.addCustomEditor({
      id, path: id, name: id, process: grafana.identityOverrideProcessor, shouldApply: () => true,
    })),
  });
}

// packages/grafana-prometheus/src/result_transformer.ts: a table for each target, with the labels as columns.
function tables(targets, answers) {
  const several = targets.length > 1;
  return targets.map(({refId}) => {
    const found = answers[refId].data.result;
    const labels = [...new Set(found.flatMap(one => Object.keys(one.metric).sort()))];
    const column = (name, type, of) => ({name, type, config: {}, values: found.map(of)});
    return {
      refId,
      length: found.length,
      fields: [
        column('Time', FieldType.time, one => one.value[0] * 1000),
        ...labels.map(label => column(label, FieldType.string, one => one.metric[label] ?? '')),
        column(several ? `Value #${refId}` : 'Value', FieldType.number, one => Number(one.value[1])),
      ],
    };
  });
}

// The same file: a frame for each series, named by the legend.
function series(targets, answers) {
  return targets.flatMap(({refId, legendFormat}) =>
    answers[refId].data.result.map(({metric, value, values}) => {
      const points = values ?? [value];
      const name = legendFormat.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => metric[label] ?? '');
      const [times, numbers] = [points.map(([time]) => time * 1000), points.map(([, number]) => Number(number))];
      return {
        refId,
        length: points.length,
        fields: [
          {name: 'Time', type: FieldType.time, config: {}, values: times},
          {name: 'Value', type: FieldType.number, config: {displayNameFromDS: name}, labels: metric, values: numbers},
        ],
      };
    }),
  );
}

// public/app/features/dashboard/state/getPanelOptionsWithDefaults.ts: of Grafana 10, in later ones in the package.
function withDefaults(made, panel) {
  const given = structuredClone(panel.fieldConfig);
  if (grafana.getPanelOptionsWithDefaults) {
    return grafana.getPanelOptionsWithDefaults({
      plugin: made, currentOptions: panel.options, currentFieldConfig: given, isAfterPluginChange: false,
    }).fieldConfig;
  }
  const defaults = {...made.fieldConfigDefaults.defaults, ...given.defaults};
  const ofOverrides = given.overrides.flatMap(({properties}) => properties).filter(({id}) => id === 'thresholds');
  for (const {steps} of [defaults.thresholds, ...ofOverrides.map(({value}) => value)]) steps[0].value = -Infinity;
  return {defaults, overrides: given.overrides};
}

async function shown(board, panel, answers) {
  const asTable = panel.targets[0].format === 'table';
  const raw = (asTable ? tables : series)(panel.targets, answers);
  const data = await firstValueFrom(grafana.transformDataFrame(panel.transformations ?? [], raw));
  const made = plugin(panel.type);
  const fieldConfig = withDefaults(made, panel);
  const context = {
    data, fieldConfig, theme: THEME, timeZone: 'utc', replaceVariables: text => text,
    fieldConfigRegistry: made.fieldConfigRegistry,
  };
  const frames = grafana.applyFieldOverrides(context);
  const single = ['stat', 'bargauge'].includes(panel.type);
  const figures = !single ? [] : grafana.getFieldDisplayValues({
    ...context, data: frames, reduceOptions: panel.options.reduceOptions, sparkline: false,
  }).map(({display}) => figure(panel, display));
  return {board: board.uid, panel, where: `${board.uid}: ${panel.title}`, raw, frames, figures};
}

// packages/grafana-ui/src/components/BigValue/BigValueLayout.tsx: of a single value the name is left out, unless the
// mode of the text says otherwise; with the mode Name it is all that there is.
function figure(panel, {title, numeric, color, ...display}) {
  const mode = panel.options.textMode ?? 'auto';
  const value = grafana.formattedValueToString(display);
  const isAlone = panel.targets.length === 1;
  const name = mode === 'value' || (mode === 'auto' && isAlone) ? '' : title;
  return {name: panel.type === 'stat' ? name : title, value: mode === 'name' ? '' : value, numeric, color};
}

/** The cells of a table, by row: text and colour by the name of the column. */
export function rows(frame) {
  const columns = frame.fields.map(field => [grafana.getFieldDisplayName(field, frame), field]);
  return Array.from({length: frame.length}, (_, at) =>
    Object.fromEntries(columns.map(([name, field]) => {
      const {color, ...display} = field.display(field.values[at]);
      const isColoured = /color/.test(field.config.custom?.cellOptions?.type ?? '');
      return [name, {text: grafana.formattedValueToString(display), color: isColoured ? color : undefined}];
    })),
  );
}

/** Names of series or columns that the panel shows. */
export function names({frames, figures}) {
  return figures.length
    ? figures.map(one => one.name)
    : frames.flatMap(frame =>
        frame.fields.filter(one => one.type !== FieldType.time).map(one => grafana.getFieldDisplayName(one, frame, frames)));
}

// public/app/plugins/panel/trend/TrendPanel.tsx: why it draws nothing; null where it draws. The function that looks
// whether x ascends is in @grafana/data; it takes no value twice.
export function refusal({panel, frames}) {
  if (frames.length !== 1) return 'Only one frame is supported, consider adding a join transformation';
  const x = frames[0].fields.find(one => grafana.getFieldDisplayName(one, frames[0]) === panel.options.xField);
  if (!x) return `Unable to find field: ${panel.options.xField}`;
  if (x.type !== FieldType.number) return `${panel.options.xField} is no number`;
  return grafana.isLikelyAscendingVector(x.values) ? null : 'Values must be in ascending order';
}

export const nameOf = (field, frame) => grafana.getFieldDisplayName(field, frame);

export const isNumber = field => field.type === FieldType.number;

export async function everything() {
  const folder = process.env.DASHBOARDS ?? new URL('../../../dashboards', import.meta.url).pathname;
  const answered = JSON.parse(readFileSync(process.env.FRAMES, 'utf8')).panels;
  const found = [];
  for (const file of readdirSync(folder).filter(name => name.endsWith('.json')).sort()) {
    const board = JSON.parse(readFileSync(`${folder}/${file}`, 'utf8'));
    for (const panel of board.panels.flatMap(one => [one, ...(one.panels ?? [])])) {
      if (panel.type !== 'row') found.push(await shown(board, panel, answered[board.uid][panel.title]));
    }
  }
  return found;
}
