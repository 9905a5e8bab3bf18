// SPDX-License-Identifier: Apache-2.0
// What Grafana shows of Prometheus' responses, by Grafana's own package @grafana/data: transformations, defaults,
// overrides, thresholds, mappings. What is in Grafana's application, and in no package, is stated here in our words,
// each with its file in github.com/grafana/grafana.

import {readFileSync, readdirSync} from 'node:fs';
import {createRequire} from 'node:module';

import {JSDOM} from 'jsdom';

import {fieldConfigOf, framesOf} from './frames.mjs';

const page = new JSDOM('', {url: 'http://localhost/'});
page.window.matchMedia = () => ({matches: false, addEventListener() {}, removeEventListener() {}});
Object.assign(globalThis, {window: page.window, document: page.window.document, navigator: page.window.navigator});
const require = createRequire(import.meta.url); // its ES modules name no extensions
const grafana = require(process.env.GRAFANA_DATA ?? '@grafana/data');

const {FieldType} = grafana;
const THEME = grafana.createTheme({colors: {mode: 'dark'}});
export const RED = new Set(['red', 'orange'].map(name => THEME.visualization.getColorByName(name)));

async function shown(board, panel, answers, variables) {
  const replaceVariables = text => text.replace(/\$(\w+)/g, (all, name) => variables[name] ?? all);
  const {raw, frames} = await framesOf(grafana, panel, answers, THEME, replaceVariables);
  const single = ['stat', 'bargauge'].includes(panel.type);
  const figures = !single ? [] : grafana.getFieldDisplayValues({
    data: frames, fieldConfig: fieldConfigOf(panel), theme: THEME, timeZone: 'utc', replaceVariables,
    reduceOptions: panel.options.reduceOptions, sparkline: false,
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
  const {panels, variables} = JSON.parse(readFileSync(process.env.FRAMES, 'utf8'));
  const found = [];
  for (const file of readdirSync(folder).filter(name => name.endsWith('.json')).sort()) {
    const board = JSON.parse(readFileSync(`${folder}/${file}`, 'utf8'));
    for (const panel of board.panels.flatMap(one => [one, ...(one.panels ?? [])])) {
      if (panel.type !== 'row') {
        found.push(await shown(board, panel, panels[board.uid][panel.title], variables[board.uid]));
      }
    }
  }
  return found;
}
