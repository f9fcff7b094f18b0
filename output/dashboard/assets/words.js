// The words and colours for states and events, as in watch.
import { el, line, name, visible } from './dom.js';

let words = {}; // of states and causes, as the server says them
export const learnWords = (all) => { words = all; };
export const causeWords = (cause) => words[cause] || '';
export const stateWords = (s) => words[s] || visible(s || '').toLowerCase();

export const tone = (s) => ({ Ready: 'good', Backoff: 'bad', NeedsAuth: 'bad', Unconfigured: 'bad', Unapproved: 'bad', Unsupported: 'warn', Connecting: 'warn' }[s] || '');
export const badge = (s) => el('span', 'badge ' + tone(s.state), stateWords(s.state));
export const modes = { push: 'pushed by the server', poll: 'found by polling' };

// said is what the server says about an event: verb, tone, subject and details. It does not know the types of a
// newer mcptrack, whose events the log may have.
export const said = (e) => ({ details: [], ...(e.description || { verb: e.type, tone: 'quiet', subject: e.resourceUri }) });

export function summary(e) {
	const d = said(e);
	return line('', el('span', d.tone, visible(d.verb)), d.subject && name(d.subject), ...d.details);
}

export const fits = (filter, ...texts) => {
	const f = filter.trim().toLowerCase();
	return !f || texts.some((t) => (t || '').toLowerCase().includes(f));
};
export const narrow = matchMedia('(max-width: 900px)'); // as in app.css
