// The chart of the stored events, which is also the filter by time.
import { $, clock, el } from './dom.js';
import { get, go, state } from './state.js';

const plot = $('chart-plot'), chosen = el('div', 'chosen'), cursor = el('div', 'cursor'), most = el('span'), ticks = el('div', 'ticks');
const svg = (tag, attributes) => {
	const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
	for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
	return e;
};
const bars = svg('path', {}), drawn = svg('svg', { preserveAspectRatio: 'none', 'aria-hidden': true });
drawn.append(bars);
const area = el('div', 'area', drawn, chosen, cursor);
plot.append(el('div', 'most', most, '0'), area, ticks);
cursor.hidden = true;

let data = null, loading = false, again = false;
let pointed = null, began = null; // seconds: under the pointer, and where it was pressed

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
const span = () => data.step * data.events.length;
const clamped = (part) => Math.min(Math.max(part, 0), 1);
const share = (seconds) => clamped((seconds - data.from) / span()) * 100 + '%';
const at = (seconds) => clock(new Date(seconds * 1000).toISOString());

export function draw() {
	$('chart').hidden = !data;
	if (!data) return;
	const { events } = data, top = Math.max(...events, 1);
	drawn.setAttribute('viewBox', `0 0 ${events.length} ${top}`);
	bars.setAttribute('d', events.map((n, i) => n ? `M${i + .1} ${top}v-${n}h.8v${n}z` : '').join(''));
	most.textContent = top.toLocaleString(undefined, { notation: 'compact' });
	ticks.replaceChildren(...labels());
	say();
	showFilter();
}

// labels names the full minutes, hours or days of the local time, as many as there is room for.
function labels() {
	const zone = new Date(data.from * 1000).getTimezoneOffset() * 60, fit = Math.max(1, Math.floor(area.clientWidth / 80));
	const steps = [60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 604800], step = steps.find((s) => span() / s <= fit) || span();
	const long = span() > 2 * 86400, format = long ? { month: 'short', day: 'numeric' } : { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }, all = [], end = data.from + span() * (1 - 60 / area.clientWidth);
	for (let t = Math.ceil((data.from - zone) / step) * step + zone; t < end; t += step) {
		const e = el('span', '', new Date(t * 1000)[long ? 'toLocaleDateString' : 'toLocaleTimeString'](undefined, format));
		e.style.left = share(t);
		all.push(e);
	}
	return all;
}

// say says how many events there are, in all or in the bar under the pointer.
function say() {
	const i = pointed === null ? -1 : Math.min(Math.floor((pointed - data.from) / data.step), data.events.length - 1);
	$('chart-title').textContent = i < 0 ? `Events per ${per()} · ${data.events.reduce((a, b) => a + b, 0).toLocaleString()} in all` : `${at(data.from + i * data.step)}: ${data.events[i].toLocaleString()} events in ${per()}`;
}

// showFilter marks the time that is chosen, or that is being chosen.
export function showFilter() {
	$('chart-clear').hidden = !state.after;
	if (state.after) $('chart-clear').textContent = `✕ ${at(state.after)} – ${at(state.before)}`;
	const [from, to] = began === null ? [state.after, state.before].map(Number) : [began, pointed].sort((a, b) => a - b);
	chosen.hidden = !to || !data;
	if (chosen.hidden) return;
	chosen.style.left = share(from);
	chosen.style.width = parseFloat(share(to)) - parseFloat(share(from)) + '%';
}

function filter(after, before) {
	go({ after: String(Math.floor(after)), before: String(Math.max(Math.ceil(before), Math.floor(after) + 1)) });
}
const clear = () => go({ after: '', before: '' });

function point(e) {
	const box = area.getBoundingClientRect(), part = clamped((e.clientX - box.left) / box.width);
	pointed = data.from + part * span();
	cursor.hidden = false;
	cursor.style.left = part * 100 + '%';
	say();
	showFilter();
}
area.addEventListener('pointerdown', (e) => {
	if (!data || e.button) return;
	e.preventDefault(); // selects no text
	plot.focus({ focusVisible: false });
	point(e);
	began = pointed;
});
addEventListener('pointermove', (e) => { if (data && (began !== null || e.target === area)) point(e); });
addEventListener('pointerup', (e) => {
	if (began === null) return;
	point(e);
	const [from, to] = [began, pointed].sort((a, b) => a - b);
	began = null;
	if ((to - from) / span() * area.clientWidth > 2) filter(from, to);
	else clear();
});
function leave() {
	pointed = began = null;
	cursor.hidden = true;
	if (data) draw();
}
area.addEventListener('pointerleave', () => { if (began === null) leave(); });
addEventListener('pointercancel', leave);

$('chart-clear').onclick = clear;
plot.addEventListener('keydown', (e) => {
	if (e.key === 'Escape' && state.after) clear();
	const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key] * (data?.step || 0);
	if (!step) return;
	e.preventDefault();
	if (!state.after) filter(data.from + data.step * (data.events.length - 1), data.from + data.step * data.events.length);
	else if (e.shiftKey) filter(Number(state.after), Math.max(Number(state.before) + step, Number(state.after) + data.step));
	else filter(Number(state.after) + step, Number(state.before) + step);
});
new ResizeObserver(draw).observe(area);
