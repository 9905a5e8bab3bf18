// SPDX-License-Identifier: Apache-2.0
// Answers of Prometheus as the frames of a panel, by the transformations and field overrides of @grafana/data.

import {
  FieldType, Registry, applyFieldOverrides, createDataFrame, dataLinksOverrideProcessor, identityOverrideProcessor,
  standardTransformers, standardTransformersRegistry, transformDataFrame, valueMappingsOverrideProcessor,
} from "@grafana/data";
import { lastValueFrom } from "rxjs";

standardTransformersRegistry.setInit(() =>
  [...new Set(Object.values(standardTransformers))].map((transformation) => ({id: transformation.id, transformation})));

const STANDARD = ["unit", "min", "max", "decimals", "displayName", "noValue", "color", "thresholds", "mappings", "links",
  "filterable", "fieldMinMax", "description"];
const PROCESS = {links: dataLinksOverrideProcessor, mappings: valueMappingsOverrideProcessor};
const BY_SERIES = ["timeseries", "trend", "xychart", "barchart"]; // coloured by series where a panel says nothing
// What Grafana's application fills in where a panel says nothing.
const THRESHOLDS = {mode: "absolute", steps: [{color: "green", value: -Infinity}, {color: "red", value: 80}]};
const LINE = {axisPlacement: "auto", lineInterpolation: "linear", scaleDistribution: {type: "linear"}};

/** The frames of a panel that Grafana would draw. */
export async function framesOf(panel, answers, theme) {
  let data = (panel.targets ?? []).filter((target) => !target.hide).flatMap((target) => {
    const answer = answers?.[target.refId];
    const result = (answer?.data ?? answer)?.result ?? [];
    return target.format === "table" ? tableOf(target, panel, result) : result.map((one) => seriesOf(target, one));
  });
  data = await lastValueFrom(transformDataFrame(panel.transformations ?? [], data, {interpolate: (text) => text}));
  return applyFieldOverrides({
    data, theme, fieldConfig: fieldConfigOf(panel), fieldConfigRegistry: registryOf(panel), timeZone: "utc",
    replaceVariables: (text) => text,
  });
}

export function fieldConfigOf(panel) {
  const {defaults = {}, overrides = []} = panel.fieldConfig ?? {};
  const bySeries = BY_SERIES.includes(panel.type);
  const thresholds = structuredClone(defaults.thresholds ?? THRESHOLDS);
  thresholds.steps[0].value = -Infinity; // JSON has none
  const color = defaults.color ?? {mode: bySeries ? "palette-classic" : "thresholds"};
  const custom = bySeries ? {...LINE, ...defaults.custom} : defaults.custom;
  return {defaults: {...defaults, color, custom, thresholds}, overrides};
}

/** Grafana knows each property of a field by a registry; that of its own properties is as long as the panel needs. */
function registryOf(panel) {
  const {defaults, overrides} = fieldConfigOf(panel);
  const own = new Set(Object.keys(defaults.custom ?? {}));
  for (const {properties} of overrides)
    for (const {id} of properties) if (id.startsWith("custom.")) own.add(id.slice("custom.".length));
  const property = (path, isCustom) => ({
    id: isCustom ? `custom.${path}` : path, path, name: path, isCustom, settings: {}, override: () => null,
    shouldApply: () => true, process: PROCESS[path] ?? identityOverrideProcessor,
  });
  return new Registry(() => [...STANDARD.map((path) => property(path, false)), ...[...own].map((path) => property(path, true))]);
}

/** One frame of a series, named by the legend. */
function seriesOf(target, {metric, value, values}) {
  const points = values ?? [value];
  const {__name__, ...labels} = metric;
  const format = target.legendFormat;
  const written = Object.entries(labels).map(([name, said]) => `${name}="${said}"`).join(", ");
  const name = format && format !== "__auto"
    ? format.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => metric[label] ?? "")
    : `${__name__ ?? ""}${written && `{${written}}`}` || target.expr;
  return createDataFrame({
    refId: target.refId, name,
    fields: [
      {name: "Time", type: FieldType.time, values: points.map(([at]) => at * 1000), config: {}},
      {name: "Value", type: FieldType.number, labels, values: points.map(([, said]) => number(said)),
        config: {displayNameFromDS: name}},
    ],
  });
}

/** One frame of all series of a query: the time, a column for each label, and the value. */
function tableOf(target, panel, result) {
  if (!result.length) return [];
  const rows = result.flatMap(({metric, value, values}) => (values ?? [value]).map((point) => [metric, point]));
  const labels = [...new Set(rows.flatMap(([metric]) => Object.keys(metric)))].sort();
  const name = panel.targets.length > 1 ? `Value #${target.refId}` : "Value";
  const text = (label) => ({name: label, type: FieldType.string, config: {filterable: true},
    values: rows.map(([metric]) => metric[label] ?? "")});
  return [createDataFrame({refId: target.refId, fields: [
    {name: "Time", type: FieldType.time, config: {}, values: rows.map(([, [at]]) => at * 1000)},
    ...labels.map(text),
    {name, type: FieldType.number, config: {}, values: rows.map(([, [, said]]) => number(said))},
  ]})];
}

function number(said) {
  return said === "+Inf" ? Infinity : said === "-Inf" ? -Infinity : Number(said);
}
