// SPDX-License-Identifier: Apache-2.0
// Responses of Prometheus as the frames that a panel draws, by the package @grafana/data that the caller has: its
// transformations, overrides, thresholds, mappings. What is in Grafana's application, and in no package, is stated here
// in our words, each with its file in github.com/grafana/grafana.

// module.tsx of each panel in public/app/plugins/panel/: which of them colour by series when nothing else is said.
const BY_SERIES = ['timeseries', 'trend'];
// public/app/core/components/OptionsUI/registry.tsx: without thresholds of its own a panel has red from 80 on.
const RED_FROM_80 = {mode: 'absolute', steps: [{value: -Infinity, color: 'green'}, {value: 80, color: 'red'}]};
// packages/grafana-ui/src/options/builder/axis.tsx and the panels' own: what lines have where nothing is said.
const LINE = {axisPlacement: 'auto', lineInterpolation: 'linear', scaleDistribution: {type: 'linear'}};

const prepared = new WeakSet();

/** The frames before transformations, and those that the panel draws. */
export async function framesOf(grafana, panel, answers, theme, replaceVariables = text => text) {
  if (!prepared.has(grafana)) {
    prepared.add(grafana);
    grafana.standardTransformersRegistry.setInit(() => [...new Set(Object.values(grafana.standardTransformers))]
      .map(transformation => ({id: transformation.id, name: transformation.name, transformation})));
  }
  const raw = panel.targets.flatMap(target => {
    const {result} = answers[target.refId].data;
    return target.format === 'table' ? tableOf(target, panel, result) : result.map(one => seriesOf(target, one));
  });
  const transformed = grafana.transformDataFrame(panel.transformations ?? [], raw, {interpolate: replaceVariables});
  const frames = grafana.applyFieldOverrides({
    data: await new Promise((resolve, reject) => transformed.subscribe({next: resolve, error: reject})), theme,
    fieldConfig: fieldConfigOf(panel), fieldConfigRegistry: registryOf(grafana, panel), timeZone: 'utc',
    replaceVariables,
  });
  return {raw, frames};
}

// public/app/features/dashboard/state/getPanelOptionsWithDefaults.ts
export function fieldConfigOf({type, fieldConfig: {defaults, overrides}}) {
  const bySeries = BY_SERIES.includes(type);
  const override = ({matcher, properties}) => ({matcher, properties: properties.map(({id, value}) =>
    ({id, value: id === 'thresholds' ? withInfinity(value) : value}))});
  return {
    defaults: {
      mappings: [], links: [], ...defaults, color: defaults.color ?? {mode: bySeries ? 'palette-classic' : 'thresholds'},
      custom: bySeries ? {...LINE, ...defaults.custom} : defaults.custom,
      thresholds: withInfinity(defaults.thresholds ?? RED_FROM_80),
    },
    overrides: overrides.map(override),
  };
}

const withInfinity = ({mode, steps}) => // which JSON lacks
  ({mode, steps: steps.map(step => ({...step, value: step.value ?? -Infinity}))});

/** Grafana knows each property of a field by a registry; that of its own properties is as long as the panel needs. */
function registryOf(grafana, panel) {
  const {defaults, overrides} = fieldConfigOf(panel);
  const ids = overrides.flatMap(({properties}) => properties.map(({id}) => id));
  const own = new Set(ids.filter(id => id.startsWith('custom.')).map(id => id.slice('custom.'.length)));
  for (const name of Object.keys(defaults.custom ?? {})) own.add(name);
  const process = {
    unit: grafana.unitOverrideProcessor, min: grafana.numberOverrideProcessor, max: grafana.numberOverrideProcessor,
    decimals: grafana.numberOverrideProcessor, displayName: grafana.displayNameOverrideProcessor,
    noValue: grafana.stringOverrideProcessor, color: grafana.identityOverrideProcessor,
    thresholds: grafana.thresholdsOverrideProcessor, mappings: grafana.valueMappingsOverrideProcessor,
    links: grafana.dataLinksOverrideProcessor,
  };
  const property = (path, isCustom) => ({
    id: isCustom ? `custom.${path}` : path, path, name: path, isCustom, settings: {}, override: () => null,
    shouldApply: () => true, process: isCustom ? grafana.identityOverrideProcessor : process[path],
  });
  return new grafana.Registry(() =>
    [...Object.keys(process).map(path => property(path, false)), ...[...own].map(path => property(path, true))]);
}

// packages/grafana-prometheus/src/result_transformer.ts: a frame for each series, named by the legend.
function seriesOf({refId, legendFormat}, {metric, value, values}) {
  const points = values ?? [value];
  const name = legendFormat.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => metric[label] ?? '');
  return {
    refId, name, length: points.length,
    fields: [
      {name: 'Time', type: 'time', config: {}, values: points.map(([at]) => at * 1000)},
      {name: 'Value', type: 'number', config: {displayNameFromDS: name}, labels: metric,
        values: points.map(([, said]) => number(said))},
    ],
  };
}

// The same file: a table of all series of a target, with the labels as columns.
function tableOf({refId}, {targets}, result) {
  const labels = [...new Set(result.flatMap(({metric}) => Object.keys(metric)))].sort();
  const column = (name, type, of) => ({name, type, config: {}, values: result.map(of)});
  return [{
    refId, length: result.length,
    fields: [
      column('Time', 'time', ({value: [at]}) => at * 1000),
      ...labels.map(label => column(label, 'string', ({metric}) => metric[label] ?? '')),
      column(targets.length > 1 ? `Value #${refId}` : 'Value', 'number', ({value: [, said]}) => number(said)),
    ],
  }];
}

const number = said => Number(said.replace('Inf', 'Infinity'));
