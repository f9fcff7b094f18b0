// Charts of the stored events, drawn by uPlot.
import { get, state } from './state.js';

const $ = (id) => document.getElementById(id);
const charts = new Map();
let loading = false, again = false, data = null;

const color = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
const number = (n) => n >= 1e6 ? n / 1e6 + 'M' : n >= 1e3 ? n / 1e3 + 'k' : String(n);
const milliseconds = (n) => n >= 1000 ? n / 1000 + ' s' : n + ' ms';

const label = (seconds, span) => {
  const at = new Date(seconds * 1000);
  return span > 2 * 86400 ? at.toLocaleDateString(undefined, { month: 'short', day: 'numeric' }) : at.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
};

const kinds = {
  'chart-events': {
    data: (d, times) => [times, d.events],
    series: () => [{ label: 'events', stroke: color('--accent'), fill: color('--pick'), width: 1, points: { show: false }, paths: window.uPlot.paths.bars({ size: [1, 20], align: 1 }) }],
    values: number,
    range: (_, __, most) => [0, Math.max(most * 1.1, 1)],
  },
  'chart-latency': {
    data: (d, times) => [times, d.p50, d.p99],
    series: () => [
      { label: 'p50', stroke: color('--good'), width: 1.5, spanGaps: true },
      { label: 'p99', stroke: color('--warn'), width: 1.5, spanGaps: true, dash: [4, 3] }],
    values: milliseconds,
    range: (_, __, most) => [0, Math.max(most * 1.1, 1)],
  },
};

// loadCharts asks for the counts; while it does, further calls are one.
export async function loadCharts() {
  again = true;
  if (loading) return;
  loading = true;
  while (again) {
    again = false;
    const server = state.scope ? state.server : '';
    try {
      data = await get('/api/activity?' + new URLSearchParams({ range: state.range || '300', server }));
      draw();
    } catch { $('charts').hidden = true; }
  }
  loading = false;
}

// interval is how often the charts are to be loaded again, in ms.
export const interval = () => !state.range ? 5000 : state.range === '3600' ? 15000 : 60000;

export function draw() {
  if (!data || !window.uPlot) return;
  $('charts').hidden = false;
  const times = data.events.map((_, i) => data.from + i * data.step);
  for (const [id, kind] of Object.entries(kinds)) {
    const root = $(id), values = kind.data(data, times);
    let chart = charts.get(id);
    if (!chart) {
      chart = new window.uPlot(options(kind, root.clientWidth), values, root);
      charts.set(id, chart);
    } else chart.setData(values);
  }
  const sum = data.events.reduce((a, b) => a + b, 0), most = Math.max(...data.events);
  const per = data.step < 60 ? data.step + ' s' : data.step < 3600 ? data.step / 60 + ' min' : (data.step / 3600).toFixed(1) + ' h';
  const last = (list) => list.findLast((v) => v != null);
  const slow = last(data.p99) == null ? '' : `; stored within ${milliseconds(last(data.p50))} (p50), ${milliseconds(last(data.p99))} (p99) lately`;
  $('chart-text').textContent = `${sum.toLocaleString()} events, at most ${most.toLocaleString()} in ${per}${slow}`;
  $('chart-events').setAttribute('aria-label', `Events over time: ${sum} events, at most ${most} in ${per}`);
  $('chart-latency').setAttribute('aria-label', 'Time from notice to storage' + slow);
}

function options(kind, width) {
  const axis = { stroke: color('--quiet'), font: '11px system-ui', grid: { stroke: color('--line'), width: 1 }, ticks: { show: false } };
  return {
    width, height: 90, padding: [8, 26, 0, 0], legend: { show: true }, cursor: { y: false, points: { size: 5 } },
    scales: { y: { range: kind.range } },
    axes: [{ ...axis, space: 70, size: 24, values: (u, ticks) => ticks.map((t) => label(t, u.scales.x.max - u.scales.x.min)) }, { ...axis, size: 48, space: 24, values: (_, ticks) => ticks.map(kind.values) }],
    series: [{ label: 'time' }, ...kind.series().map((s) => ({ value: (_, v) => v == null ? '–' : kind.values(v), ...s }))],
  };
}

// Colours and widths are fixed when a chart is made.
function remake() {
  for (const chart of charts.values()) chart.destroy();
  charts.clear();
  draw();
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', remake);
new ResizeObserver(() => {
  for (const [id, chart] of charts) {
    const width = $(id).clientWidth;
    if (width && width !== chart.width) chart.setSize({ width, height: 90 });
  }
}).observe($('charts'));
