// SPDX-License-Identifier: Apache-2.0
// A dashboard by Grafana's components: its panels at their places, one below the other on a phone.

import * as grafana from "@grafana/data";
import {
  cacheFieldDisplayNames, createTheme, dateTime, getDisplayValueAlignmentFactors, getFieldDisplayName,
  getFieldDisplayValues, toUtc,
} from "@grafana/data";
import {
  BarGauge, BigValue, ErrorBoundaryAlert, GlobalStyles, PanelChrome, PortalContainer, ThemeContext, TimeSeries,
  VizRepeater,
} from "@grafana/ui";
import { TableNG } from "@grafana/ui/unstable";
import { createRoot } from "react-dom/client";

import { fieldConfigOf, framesOf } from "../frames.mjs";

const [CELL, GAP, COLUMNS, PHONE] = [30, 8, 24, 769]; // pixels of Grafana's grid; below PHONE it has one column

// What these panels of Grafana do where nothing is said.
const STAT = {colorMode: "value", graphMode: "area", justifyMode: "auto", textMode: "auto", wideLayout: true};
const BARS = {displayMode: "gradient", showUnfilled: true, valueMode: "color", namePlacement: "auto"};

function Repeated({panel, frames, theme, sparkline, ...given}) {
  const values = () => getFieldDisplayValues({
    fieldConfig: fieldConfigOf(panel), reduceOptions: panel.options.reduceOptions, replaceVariables: (text) => text,
    theme, data: frames, sparkline, timeZone: "utc",
  });
  return (
    <VizRepeater {...given} getValues={values} getAlignmentFactors={getDisplayValueAlignmentFactors} source={frames}
      orientation={panel.options.orientation ?? "auto"} renderCounter={0} />);
}

function Stat({panel, frames, theme, width, height}) {
  const options = {...STAT, ...panel.options};
  const value = ({value: {display, sparkline}, ...place}) => (
    <BigValue {...options} {...place} value={display} sparkline={sparkline} theme={theme}
      disableWideLayout={!options.wideLayout} />);
  return <Repeated {...{panel, frames, theme, width, height}} renderValue={value} autoGrid
    sparkline={options.graphMode !== "none"} />;
}

function Bars({panel, frames, theme, width, height}) {
  const options = {...BARS, ...panel.options};
  const bar = ({value: {display, field, view, colIndex}, ...place}) => (
    <BarGauge {...options} {...place} value={display} field={field} display={view?.getFieldDisplayProcessor(colIndex)}
      theme={theme} valueDisplayMode={options.valueMode} itemSpacing={8} lcdCellWidth={12} isOverflow={false} />);
  return <Repeated {...{panel, frames, theme, width, height}} renderValue={bar} itemSpacing={8}
    minVizWidth={8} minVizHeight={16} maxVizHeight={300} />;
}

function Table({panel, frames, theme, width, height}) {
  const {options} = panel;
  cacheFieldDisplayNames(frames);
  return (
    <TableNG data={frames[0]} width={width} height={height} noHeader={!(options.showHeader ?? true)} theme={theme}
      cellHeight={options.cellHeight} initialSortBy={options.sortBy} fieldConfig={fieldConfigOf(panel)} timeZone="utc"
      frozenColumns={options.frozenColumns?.left} enableVirtualization={false} />);
}

function Lines({panel, frames, width, height, range}) {
  const {legend} = panel.options;
  return <TimeSeries {...{frames, width, height, legend}} timeRange={range} timeZone="utc" />;
}

function Trend({panel, frames, width, height, range}) {
  const {xField: x, legend} = panel.options;
  const isX = (field) => getFieldDisplayName(field, frames[0]) === x;
  const fields = {x: isX, y: (field) => field.type === "number" && !isX(field)};
  return (
    <TimeSeries frames={frames} fields={fields} width={width} height={height} timeRange={range} timeZone="utc"
      legend={legend} preparePlotFrame={([frame]) => xFirst(frame, fields)} />);
}

function xFirst(frame, {x, y}) {
  const origin = (field) => ({frameIndex: 0, fieldIndex: frame.fields.indexOf(field)}); // whose name the legend has
  const fields = [...frame.fields.filter(x), ...frame.fields.filter(y)];
  return {...frame, fields: fields.map((field) => ({...field, state: {...field.state, origin: origin(field)}}))};
}

const DRAWN = {stat: Stat, bargauge: Bars, table: Table, timeseries: Lines, trend: Trend};

function Panel({panel, frames, theme, range, ...box}) {
  const Drawn = DRAWN[panel.type];
  const isEmpty = !frames.some(({length}) => length);
  const inside = (width, height) => {
    if (!Drawn) return <p>{panel.type}: not drawn here</p>;
    const noData = panel.fieldConfig.defaults.noValue ?? "No data";
    if (isEmpty) return <div className="empty" style={{height}}>{noData}</div>;
    return <Drawn {...{panel, frames, theme, range, width, height}} />;
  };
  return (
    <div style={{position: "absolute", ...box}}>
      <PanelChrome title={panel.title} description={panel.description} width={box.width} height={box.height}
        displayMode={panel.transparent ? "transparent" : "default"} padding={panel.type === "table" ? "none" : "md"}>
        {(width, height) => <ErrorBoundaryAlert>{inside(width, height)}</ErrorBoundaryAlert>}
      </PanelChrome>
    </div>);
}

/** Folded rows stand open; each panel moves up to those above it, as in Grafana. On a phone it has the whole width. */
function placed(panels, width) {
  const places = [];
  for (const panel of panels) {
    const {x, w, h} = width < PHONE ? {...panel.gridPos, x: 0, w: COLUMNS} : panel.gridPos;
    const above = places.filter(({place}) => place.x < x + w && x < place.x + place.w);
    places.push({panel, place: {x, w, h, y: Math.max(0, ...above.map(({place}) => place.y + place.h))}});
  }
  const column = (width + GAP) / COLUMNS;
  return places.map(({panel, place: {x, y, w, h}}) => ({panel,
    box: {left: x * column, top: y * (CELL + GAP), width: w * column - GAP, height: h * (CELL + GAP) - GAP}}));
}

/** Draws a dashboard; with titles, these of its panels only. How many icons and tables there will be at last. */
window.draw = async ({board, answers, variables, mode, note, only, range}) => {
  const replaced = (text) => text.replace(/\$(\w+)/g, (all, name) => variables[name] ?? all);
  const theme = createTheme({colors: {mode}});
  const width = document.documentElement.clientWidth - 2 * GAP;
  const root = createRoot(document.getElementById("root"));
  root.render(<ThemeContext.Provider value={theme}><GlobalStyles /></ThemeContext.Provider>);
  await new Promise((resolve) => setTimeout(resolve));
  await Promise.all([400, 500].map((weight) => document.fonts.load(`${weight} 12px Inter`))); // a canvas does not wait
  const [from, to] = range.map((at) => toUtc(dateTime(at)));
  const all = board.panels.flatMap((panel) => [panel, ...panel.panels ?? []]);
  const places = placed(all.filter(({title}) => !only?.length || only.includes(title)), width);
  const panels = await Promise.all(places.map(async ({panel, box}) => {
    if (panel.type === "row") return <h2 key={panel.title} style={{position: "absolute", ...box}}>{panel.title}</h2>;
    const {frames} = await framesOf(grafana, panel, answers[panel.title], theme, replaced);
    const titled = {...panel, title: replaced(panel.title)};
    return <Panel key={panel.id} panel={titled} {...{frames, theme}} range={{from, to, raw: {from, to}}} {...box} />;
  }));
  const height = Math.max(...places.map(({box}) => box.top + box.height));
  root.render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <style>{`body{background:${theme.colors.background.canvas};margin:0;overflow:visible}#root{padding:${GAP}px}
        header{display:flex;justify-content:space-between;align-items:baseline;flex-wrap:wrap;padding:0 8px 8px}
        header h1{font-size:18px;margin:0}header small{color:${theme.colors.text.secondary}}
        h2{font-size:14px;line-height:${CELL}px;padding-left:8px}
        .empty{display:grid;place-items:center;color:${theme.colors.text.secondary}}`}</style>
      <header><h1>{board.title}</h1><small>{note}</small></header>
      <main style={{position: "relative", width, height}}>{panels}</main>
      <PortalContainer />
    </ThemeContext.Provider>);
  const isTable = ({panel: {type, title}}) => type === "table" && Object.values(answers[title])
    .some(({data}) => data.result.length);
  return {icons: places.filter(({panel}) => panel.description).length, tables: places.filter(isTable).length};
};
