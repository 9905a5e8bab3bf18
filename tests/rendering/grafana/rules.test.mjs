// SPDX-License-Identifier: Apache-2.0
// Grafana's rules, on the committed dashboards with the responses of a real Prometheus: of two pools, two precisions
// and four sizes, a benchmark over its budget, a failed point, a weak node, an old price, a GPU with an XID error.

import assert from 'node:assert/strict';
import {test} from 'node:test';

import {RED, everything, isNumber, nameOf, names, refusal, rows} from './shown.mjs';

const ALL = await everything();
const of = type => ALL.filter(one => one.panel.type === type);
const panel = where => {
  const found = ALL.find(one => one.where === where);
  assert.ok(found, `no panel ${where}`);
  return found;
};
const cells = one => (one.frames.length ? rows(one.frames[0]) : []);

test('every target has data', () => {
  const without = ALL.filter(({panel, raw}) => panel.targets.some(({refId}) =>
    !raw.some(frame => frame.refId === refId && frame.length)));
  assert.deepEqual(without.map(one => one.where), []);
});

test('trend: one frame, in which x is a number and ascends without a repetition', () => {
  assert.ok(of('trend').length >= 3);
  assert.deepEqual(of('trend').map(one => [one.where, refusal(one)]).filter(([, why]) => why), []);
});

test('trend: a line for each pool and precision, over all sizes, and nothing that was measured is left out', () => {
  for (const one of of('trend')) {
    const lines = one.frames[0].fields.filter(field => nameOf(field, one.frames[0]) !== one.panel.options.xField);
    const means = lines.filter(line => !/ bound$/.test(line.name));
    assert.equal(means.length, 4, one.where);
    for (const line of lines) assert.ok(line.values.filter(value => value !== null).length >= 3, `${one.where}: ${line.name}`);
    const drawn = lines.flatMap(line => line.values.filter(value => value !== null));
    assert.equal(drawn.length, one.raw.at(-1).length, one.where);
  }
});

test('trend: bounds are dashed and not in the legend, lines are neither', () => {
  const {frames: [frame]} = panel('gpubench-study: Throughput over workers');
  const dashed = frame.fields.filter(({config: {custom}}) => custom?.lineStyle?.fill === 'dash' && custom.hideFrom.legend);
  const bounds = frame.fields.filter(field => / bound$/.test(nameOf(field, frame)));
  assert.equal(bounds.length, 8);
  assert.deepEqual(dashed, bounds);
});

test('no colour is left to Grafana, which draws all from 80 on in red', () => {
  const unsaid = ALL.filter(({panel: {fieldConfig: {defaults}}}) => !defaults.color?.mode || !defaults.thresholds?.steps);
  assert.deepEqual(unsaid.map(one => one.where), []);
});

const coloured = one => [
  ...one.figures.filter(({color}) => RED.has(color)).map(({name}) => name),
  ...(one.panel.type === 'table' ? cells(one) : []).flatMap(row =>
    Object.entries(row).filter(([, cell]) => RED.has(cell.color)).map(([name, {text}]) => `${name} = ${text}`)),
];

test('red and orange are what has failed, is weak, old, hot or over the budget, and nothing else', () => {
  const found = Object.fromEntries(ALL.map(one => [one.where, coloured(one)]).filter(([, bad]) => bad.length));
  assert.deepEqual(found, {
    'gpubench-live: GPUs, each by itself': [
      'temperature = 80 °C', 'temperature = 87 °C', 'XID error = 79',
    ],
    'gpubench-operator: Failed reconciles in the last hour': ['failed'],
    'gpubench-pools: Pools': ['price is = old'],
    'gpubench-pools: Where node time went': ['l4 lost', 'h100-spot lost'],
    'gpubench-studies: All benchmarks': [
      'points failed = 1', 'failures = 3', 'preempted = 5', 'of the budget = 104%', 'preempted = 1',
    ],
    'gpubench-studies: Schedules': ['regressed = yes', 'slower points = 1', 'slow nodes = 1'],
    'gpubench-studies: Warnings': ['WeakNode'],
    'gpubench-study: Attempts': ['failed', 'preempted', 'stopped'],
    'gpubench-study: Beside the baseline': ['CannotTell', 'Fail'],
    'gpubench-study: Bill': ['lost USD'],
    'gpubench-study: GPUs while they were measured': Array(15).fill('throttled = 31%'),
  });
});

test('stat: a version is shown by its name, which Grafana leaves out beside a single value', () => {
  const {figures} = panel('gpubench-operator: Version');
  assert.match(figures[0].name, /^\S+, Python 3/);
  assert.equal(figures[0].value, '');
  const nameless = of('stat').filter(one => one.figures.some(({name, value}) => !name || value === 'NaN'));
  assert.deepEqual(nameless.map(one => one.where), []);
});

test('table: a label is shown as it is, not read as a number and rounded', () => {
  for (const one of of('table')) {
    one.frames[0].fields.filter(field => !isNumber(field)).forEach(field => {
      const shown = field.values.map(value => [value, field.display(value).text, field.config.mappings?.length]);
      const changed = shown.filter(([value, text, mapped]) => !mapped && value !== text);
      assert.deepEqual(changed, [], `${one.where}: ${field.name}`);
    });
  }
  assert.equal(cells(panel('gpubench-study: Environment'))[0].driver.text, '570.86');
});

test('table: a row for each thing, and no column of what is always 1', () => {
  for (const one of of('table')) {
    const things = Math.max(...one.raw.map(frame => frame.length));
    assert.equal(one.frames.length, 1, one.where);
    assert.equal(cells(one).length, things, one.where);
  }
  const isOneOrZero = ({expr}) => !/ \* on /.test(expr) && /^max by \([^)]*\) \((last_over_time\()?gpubench_\w+_(info|condition)\b/.test(expr);
  const conditions = of('table').flatMap(one =>
    one.panel.targets.filter(isOneOrZero).map(({legendFormat}) => [one, legendFormat]));
  assert.ok(conditions.length >= 4);
  for (const [one, name] of conditions) {
    const shown = cells(one).map(row => row[name]?.text ?? 'a word');
    assert.ok(shown.every(text => /[a-z]/.test(text)), `${one.where}: ${name} = ${shown}`);
  }
});

test('no id or hash is a name in a legend, or a cell of a column that is no id', () => {
  const ids = new Set(['trial', 'environment', 'series'].flatMap(label => ALL.flatMap(one => one.raw.flatMap(frame =>
    frame.fields.flatMap(field => [field.labels?.[label], ...(field.name === label ? field.values : [])]))))
    .filter(Boolean));
  for (const known of ['2nqgkn45', 'c7kx01pd', 'p44744ynswjl', 'b93kk1ddq0aa']) ids.add(known);
  const isId = text => [...ids].some(id => text.includes(id));
  for (const one of ALL) {
    const texts = [...names(one), ...(one.panel.type === 'table' ? cells(one).flatMap(row =>
      Object.values(row).map(({text}) => text)) : [])];
    assert.deepEqual(texts.filter(isId), [], one.where);
  }
});

test('two lines or bars of a panel have two names', () => {
  for (const one of ALL.filter(({panel}) => panel.type !== 'table')) {
    const shown = names(one).map(name => name.replace(/\s+/g, ' ').trim());
    assert.deepEqual(shown.filter((name, at) => shown.indexOf(name) !== at), [], one.where);
  }
});

test('a median and the percentile beside it are over the same time, so that the median is never above', () => {
  const pairs = {
    'gpubench-operator: Duration of a reconcile': 1,
    'gpubench-live: Step time by window, median and slowest': 2,
  };
  for (const [where, lines] of Object.entries(pairs)) {
    const {panel: {targets}, frames} = panel(where);
    const ranges = targets.map(({expr}) => expr.match(/rate\(.*?\[(.+?)\]/)?.[1]);
    assert.deepEqual(ranges, ['$__rate_interval', '$__rate_interval'], where);
    for (let line = 0; line < lines; line += 1) {
      const [median, high] = [frames[line], frames[line + lines]].map(({fields: [times, values]}) =>
        new Map(times.values.map((time, at) => [time, values.values[at]])));
      assert.ok(median.size > 10, where);
      assert.deepEqual([...median].filter(([time, value]) => value > high.get(time)), [], where);
    }
  }
});

test('a link opens the same data source and cluster', () => {
  const links = ALL.flatMap(({panel}) => panel.fieldConfig.overrides.flatMap(({properties}) => properties))
    .filter(({id}) => id === 'links').flatMap(({value}) => value);
  assert.ok(links.length);
  for (const {url} of links) assert.match(url, /\$\{datasource:queryparam\}.*\$\{cluster:queryparam\}/);
});

test('table: at 1440 pixels no column is beyond the edge, and each has room', () => {
  for (const {panel: {gridPos}, frames: [frame], where} of of('table')) {
    const widths = frame.fields.map(({config: {custom}}) => custom?.width ?? custom?.minWidth ?? 150);
    assert.ok(Math.min(...widths) >= 80, where);
    assert.ok(widths.reduce((sum, width) => sum + width) <= 1424 * gridPos.w / 24, `${where}: ${widths}`);
  }
});

test('table: a link reads labels by their own names, whatever the columns are called', () => {
  const {panel: {fieldConfig}, frames: [{fields}]} = panel('gpubench-studies: All benchmarks');
  const read = [...JSON.stringify(fieldConfig).matchAll(/__data\.fields\.(\w+)/g)].map(([, name]) => name);
  assert.deepEqual(read, ['benchmark_namespace', 'benchmark']);
  assert.deepEqual(read.filter(name => !fields.some(field => field.name === name)), []);
  assert.ok(names(panel('gpubench-studies: All benchmarks')).includes('namespace'));
});

test('bars: what is left of a name on a phone says which point it is', () => {
  const shown = names(panel('gpubench-study: Cost of a million samples, $currency')).map(name => name.slice(0, 30));
  assert.equal(shown.length, 15);
  assert.equal(new Set(shown).size, shown.length);
});

test('legends of a benchmark do not repeat what is the same in all of them', () => {
  const lines = ALL.filter(({board, panel: {type}}) => board === 'gpubench-study' && ['trend', 'bargauge'].includes(type));
  assert.ok(lines.length >= 5);
  for (const one of lines) for (const name of names(one)) assert.doesNotMatch(name, /eu-west|resnet50|unknown/);
});

test('panels of money are of one currency, which their title has', () => {
  const inOne = ALL.filter(({panel: {title}}) => title.includes('$currency'));
  assert.equal(inOne.length, 3);
  for (const {panel: {targets}, where} of inOne) {
    const ofMoney = targets.filter(({expr}) => /cost|price/.test(expr));
    assert.ok(ofMoney.length && ofMoney.every(({expr}) => expr.includes('currency="$currency"')), where);
  }
});

test('where there is nothing, a word says so', () => {
  const single = ALL.filter(({panel: {type}}) => ['stat', 'bargauge'].includes(type));
  assert.deepEqual(single.filter(({panel}) => panel.fieldConfig.defaults.noValue !== 'none').map(one => one.where), []);
  assert.deepEqual(panel('gpubench-studies: Warnings').figures.map(({name}) => name), ['WeakNode']);
});

test('every line of panels is full', () => {
  for (const board of new Set(ALL.map(one => one.board))) {
    let [x, height] = [0, 0];
    for (const {panel: {gridPos: {w, h}}, where} of ALL.filter(one => one.board === board)) {
      assert.ok(x === 0 || h === height, `${where}: beside one of another height`);
      [x, height] = [x + w, h];
      assert.ok(x <= 24, where);
      if (x === 24) x = 0;
    }
    assert.equal(x, 0, `${board}: the last line`);
  }
});

test('what is stacked begins at zero', () => {
  const stacked = of('timeseries').filter(({panel}) => panel.fieldConfig.defaults.custom.stacking.mode === 'normal');
  assert.ok(stacked.length >= 3);
  assert.deepEqual(stacked.filter(({panel}) => panel.fieldConfig.defaults.min !== 0).map(one => one.where), []);
});

test('bars begin at zero', () => {
  assert.deepEqual(of('bargauge').filter(({panel}) => panel.fieldConfig.defaults.min !== 0).map(one => one.where), []);
});

test('trend: an axis of workers has whole numbers only, one of hours has all', () => {
  const tick = ({frames: [{fields: [x]}]}, value) => x.display(value).text.trim();
  const [throughput, , frontier] = of('trend');
  assert.deepEqual([0, 0.5, 1, 7.5, 8].map(value => tick(throughput, value)), ['0', '', '1', '', '8']);
  assert.equal(Number(tick(frontier, 0.5)), 0.5);
});

test('trend: both axes have the unit of what they show', () => {
  const units = of('trend').map(({frames: [{fields: [x, y]}]}) => [x.config.unit, y.config.unit]);
  assert.deepEqual(units, [['none', 'short'], ['none', 'percentunit'], ['none', 'none']]);
});
