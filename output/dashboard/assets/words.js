// The words and colours for states and events, as in watch.
import { el, line, name, visible } from './dom.js';

let words = {}, tones = {}; // of states and causes, as the server says them
export const learnWords = (status) => { words = status.words || {}; tones = status.tones || {}; };
export const causeWords = (cause) => words[cause] || '';
const of = (all, s) => all[s.state + ' ' + s.reason] || all[s.state];
export const stateWords = (s) => of(words, s) || visible(s.state || '').toLowerCase();
export const tone = (s) => of(tones, s) || 'quiet';
export const badge = (s) => el('span', 'badge ' + tone(s), stateWords(s));
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
