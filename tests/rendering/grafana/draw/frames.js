// SPDX-License-Identifier: Apache-2.0
// Answers of Prometheus as the frames of a panel, by the transformations and field overrides of @grafana/data.

import {
  FieldType, Registry, applyFieldOverrides, createDataFrame, dataLinksOverrideProcessor, identityOverrideProcessor,
  standardTransformers, standardTransformersRegistry, transformDataFrame, valueMappingsOverrideProcessor,
} from "@grafana/data";
import { lastValueFrom } from "rxjs";

standardTransformersRegistry.setInit(() =>
  [...new Set(Object.values(standardTransformers))].map((transformation) => ({id: transformation.id, transformation})));

const STANDARD = ["unit", "min", "max", "decimals", "displayName", "noValue", "color", "thresholds", "mappings",
  "links", "filterable", "fieldMinMax", "description"];
const PROCESS = {links: dataLinksOverrideProcessor, mappings: valueMappingsOverrideProcessor};
const BY_SERIES = ["timeseries", "trend"]; // coloured by series where a panel says nothing
// What Grafana's application fills in where a panel says nothing.
const THRESHOLDS = {mode: "absolute", steps: [{color: "green", value: -Infinity}, {color: "red", value: 80}]};
const LINE = {axisPlacement: "auto", lineInterpolation: "linear", scaleDistribution: {type: "linear"}};

/** The frames of a panel that Grafana would draw. */
export async function framesOf(panel, answers, theme) {
  let data = (panel.targets ?? []).filter((target) => !target.hide).flatMap((target) => {
    const {result} = answers[target.refId].data;
    return target.format === "table" ? tableOf(target, panel, result) : result.map((one) => seriesOf(target, one));
  });
  data = await lastValueFrom(transformDataFrame(panel.transformations ?? [], data, {interpolate: (text) => text}));
  return applyFieldOverrides({
    data, theme, fieldConfig: fieldConfigOf(panel), fieldConfigRegistry: registryOf(panel), timeZone: "utc",
    replaceVariables: (text) => text,
  });
}

export function fieldConfigOf({type, fieldConfig: {defaults, overrides}}) {
  const bySeries = BY_SERIES.includes(type);
  const color = defaults.color ?? {mode: bySeries ? "palette-classic" : "thresholds"};
  const custom = bySeries ? {...LINE, ...defaults.custom} : defaults.custom;
  const override = ({matcher, properties}) => ({matcher, properties: properties.map(({id, value}) =>
    ({id, value: id === "thresholds" ? withInfinity(value) : value}))});
  return {
    defaults: {...defaults, color, custom, thresholds: withInfinity(defaults.thresholds ?? THRESHOLDS)},
    overrides: overrides.map(override),
  };
}

const withInfinity = ({mode, steps}) => // which JSON lacks
  ({mode, steps: steps.map((step) => ({...step, value: step.value ?? -Infinity}))});

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
  return new Registry(() =>
    [...STANDARD.map((path) => property(path, false)), ...[...own].map((path) => property(path, true))]);
}

/** One frame of one series, named by the legend. */
function seriesOf(target, {metric, value, values}) {
  const points = values ?? [value];
  const name = target.legendFormat.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => metric[label] ?? "");
  return createDataFrame({
    refId: target.refId, name,
    fields: [
      {name: "Time", type: FieldType.time, values: points.map(([at]) => at * 1000), config: {}},
      {name: "Value", type: FieldType.number, labels: metric, values: points.map(([, said]) => number(said)),
        config: {displayNameFromDS: name}},
    ],
  });
}

/** One frame of all series of an instant query: the time, a column for each label, and the value. */
function tableOf(target, panel, result) {
  if (!result.length) return [];
  const labels = [...new Set(result.flatMap(({metric}) => Object.keys(metric)))].sort();
  const column = (name, type, of) => ({name, type, config: {}, values: result.map(of)});
  return [createDataFrame({refId: target.refId, fields: [
    column("Time", FieldType.time, ({value: [at]}) => at * 1000),
    ...labels.map((label) => column(label, FieldType.string, ({metric}) => metric[label] ?? "")),
    column(panel.targets.length > 1 ? `Value #${target.refId}` : "Value", FieldType.number,
      ({value: [, said]}) => number(said)),
  ]})];
}

function number(said) {
  return said === "+Inf" ? Infinity : said === "-Inf" ? -Infinity : Number(said);
}
