// The chart of the stored events, drawn by uPlot, which is also the time filter.
import { $, clock } from './dom.js';
import { get, go, state } from './state.js';

const height = 60;
let chart = null, loading = false, again = false, data = null;

const color = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
const number = (n) => n.toLocaleString(undefined, { notation: 'compact' });

const label = (seconds, span) => {
	const at = new Date(seconds * 1000);
	return span > 2 * 86400 ? at.toLocaleDateString(undefined, { month: 'short', day: 'numeric' }) : at.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
};

export async function loadChart() {
	again = true;
	if (loading) return;
	loading = true;
	while (again) {
		again = false;
		try {
			data = await get('/api/activity', { range: state.range || '300' });
			draw();
		} catch { /* what is shown stays */ }
	}
	loading = false;
}

export const interval = () => !state.range ? 5000 : state.range === '3600' ? 15000 : 60000;

const per = () => data.step < 60 ? data.step + ' s' : data.step < 3600 ? data.step / 60 + ' min' : (data.step / 3600).toFixed(1).replace('.0', '') + ' h';

export function draw() {
	if (!data || !window.uPlot) return;
	$('chart').hidden = false;
	const values = [data.events.map((_, i) => data.from + i * data.step), data.events], width = $('chart-plot').clientWidth;
	if (chart) chart.setData(values);
	else if (width) chart = new window.uPlot(options(width), values, $('chart-plot'));
	title();
	showFilter();
}

function title() {
	const i = chart?.cursor.idx;
	$('chart-title').textContent = i == null ? `Events per ${per()} · ${data.events.reduce((a, b) => a + b, 0).toLocaleString()} in all` : `${clock(new Date((data.from + i * data.step) * 1000).toISOString())}: ${data.events[i]} events in ${per()}`;
}

// showFilter marks the time that is chosen.
export function showFilter() {
	$('chart-clear').hidden = !state.after;
	if (state.after) $('chart-clear').textContent = `✕ ${clock(new Date(state.after * 1000).toISOString())} – ${clock(new Date(state.before * 1000).toISOString())}`;
	$('chart').classList.toggle('filtered', Boolean(state.after));
	if (!chart) return;
	const [left, right] = state.after ? [state.after, state.before].map((t) => Math.min(Math.max(chart.valToPos(Number(t), 'x'), 0), chart.over.clientWidth)) : [0, 0];
	chart.setSelect({ left, top: 0, width: right - left, height: chart.over.clientHeight }, false);
}

function filter(after, before) {
	go({ after: String(Math.floor(after)), before: String(Math.max(Math.ceil(before), Math.floor(after) + 1)) });
}

$('chart-clear').onclick = () => go({ after: '', before: '' });
$('chart-plot').addEventListener('keydown', (e) => {
	if (e.key === 'Escape' && state.after) go({ after: '', before: '' });
	const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key] * (data?.step || 0);
	if (!step) return;
	e.preventDefault();
	if (!state.after) filter(data.from + data.step * (data.events.length - 1), data.from + data.step * data.events.length);
	else if (e.shiftKey) filter(Number(state.after), Math.max(Number(state.before) + step, Number(state.after) + data.step));
	else filter(Number(state.after) + step, Number(state.before) + step);
});

function options(width) {
	const axis = { stroke: color('--quiet'), font: '11px system-ui', ticks: { show: false } };
	return {
		width, height, padding: [7, 16, 0, 0], legend: { show: false },
		cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
		scales: { y: { range: (_, __, most) => [0, Math.max(most, 1)] } },
		axes: [{ ...axis, space: 70, incrs: [60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 604800], size: 19, gap: 4, grid: { show: false }, values: (u, ticks) => ticks.map((t) => label(t, u.scales.x.max - u.scales.x.min)) },
			{ ...axis, size: 34, gap: 4, splits: (u) => [0, u.scales.y.max], grid: { stroke: color('--line'), width: 1 }, values: (_, ticks) => ticks.map(number) }],
		series: [{}, { stroke: color('--accent'), fill: color('--accent'), width: 0, points: { show: false }, paths: window.uPlot.paths.bars({ size: [.8, 14], align: 1 }) }],
		hooks: {
			setCursor: [title],
			setSelect: [(u) => {
				const { left, width: wide } = u.select;
				if (wide > 2) filter(u.posToVal(left, 'x'), u.posToVal(left + wide, 'x'));
				else if (state.after) go({ after: '', before: '' });
			}],
		},
	};
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
	chart?.destroy();
	chart = null;
	draw();
});
new ResizeObserver(() => {
	const width = $('chart-plot').clientWidth;
	if (!chart) draw();
	else if (width && width !== chart.width) {
		chart.setSize({ width, height });
		showFilter();
	}
}).observe($('chart-plot'));
