// What a resource's page shows changes by itself at most every 4 s, and never while somebody reads it: while the
// pointer is over it, a text in it is selected, or it is scrolled. Then a button says how many resources have newer
// changes, and shows the newest. If nothing is selected, the page is that of the newest change.
import { $ } from './dom.js';
import { isChange, isPaused, newestChange } from './feed.js';
import { loadResource } from './resource.js';
import { state } from './state.js';

const pace = 4000, most = 5000; // ms, resources
const newer = new Map(); // server and URI → newest event since what is shown
let over = false, resting = 0, loading = false, hurry = false, page = '', shown = () => {};
const panel = $('detail'), body = $('detail-body');

const shownNow = () => state.server + '\n' + state.uri;
const selected = () => state.following ? '' : shownNow();
export const isRead = () => over || body.scrollTop > 0 || isPaused() || !getSelection().isCollapsed && panel.contains(getSelection().anchorNode);

// startNewest makes what is loaded be shown by show, which gets the server and the URI.
export function startNewest(show) {
	shown = show;
	panel.addEventListener('pointerenter', (e) => { over = e.pointerType === 'mouse'; });
	panel.addEventListener('pointerleave', () => { over = false; showNewest(); });
	body.addEventListener('scroll', () => showNewest(), { passive: true });
	document.addEventListener('selectionchange', () => showNewest());
	$('queue').onclick = () => {
		getSelection().removeAllRanges();
		body.scrollTop = 0;
		body.focus({ focusVisible: false });
		showNewest(true);
	};
}

// arrived remembers an event if the page does not show it yet.
export function arrived(e) {
	const of = e.serverId + '\n' + e.resourceUri;
	if (state.following ? !isChange(e) : of !== shownNow() || !state.uri || state.to) return;
	newer.delete(of); // the newest is the last
	newer.set(of, e);
	if (newer.size > most) newer.delete(newer.keys().next().value);
}

// showNewest shows what has arrived as soon as it may, or now.
export async function showNewest(now = false) {
	const here = selected(), nothing = state.following && !state.server;
	if (page !== here) newer.clear(); // something else was selected
	page = here;
	hurry = (hurry || now) && newer.size > 0;
	const e = nothing ? newestChange() : [...newer.values()].at(-1);
	$('queue').textContent = newer.size && !nothing ? `${newer.size.toLocaleString()} newer` : '';
	if (!e || loading || !nothing && !hurry && (resting || isRead())) return;
	loading = true;
	const before = [...newer], was = shownNow(), done = await loadResource(e.serverId, e.resourceUri);
	loading = false;
	if (here === selected() && was === shownNow() && (nothing || hurry || !isRead())) {
		for (const [k, v] of before) if (newer.get(k) === v) newer.delete(k);
		hurry = false;
		done();
		shown(e.serverId, e.resourceUri);
		clearTimeout(resting);
		resting = setTimeout(() => { resting = 0; showNewest(); }, pace);
	}
	showNewest();
}
