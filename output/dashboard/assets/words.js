// The words and colours for states and events, as in watch.
import { el, line, name, size, visible } from './dom.js';

let states = {}; // state → words, as the server names them
export const learnWords = (words) => { states = words; };
export const stateWords = (s) => states[s] || visible(s || '').toLowerCase();

export const tone = (s) => ({ Ready: 'good', Backoff: 'bad', NeedsAuth: 'bad', Unconfigured: 'bad', Unapproved: 'bad', Unsupported: 'warn', Connecting: 'warn' }[s] || '');
export const badge = (s) => el('span', 'badge ' + tone(s.state), stateWords(s.state));
export const modes = { push: 'pushed by the server', poll: 'found by polling' };

export const causes = {
	notify: 'announced', trailing: 'end of a burst', resync: 'found after a reconnect', poll: 'found by polling', event: 'named by an event', hook: 'read because of a hook',
};

const places = (e, n) => (e.details || []).filter((d) => d.key === n).map((d) => ' (' + d.changes.slice(0, 3).map((c) => c.path.slice(1)).join(', ') + (d.changes.length > 3 || d.more ? ', …' : '') + ')').join('');
const maxNames = 5;

function listChange(e) {
	if (e.error) return 'could not be listed: ' + e.error;
	return [['added', '+'], ['removed', '−'], ['changed', '~']].flatMap(([k, sign]) => {
		const names = Array.isArray(e[k]) ? e[k] : [];
		return [...names.slice(0, maxNames).map((n) => sign + n + (k === 'changed' ? places(e, n) : '')), ...(names.length > maxNames ? [`${sign}… ${names.length - maxNames} more`] : [])];
	}).join('  ');
}

// describe returns the verb, tone, subject and details of an event.
export function describe(e) {
	switch (e.type) {
		case 'resource.updated': {
			const found = e.cause === 'notify' || e.cause === 'trailing' ? '' : causes[e.cause] || e.cause;
			return { verb: 'updated', tone: 'warn', about: e.resourceUri, more: [e.changed === false && 'same content', e.size != null && size(e.size), found] };
		}
		case 'resource.added': return { verb: 'added', tone: 'good', about: e.resourceUri, more: [] };
		case 'resource.removed': return { verb: 'removed', tone: 'bad', about: e.resourceUri, more: [] };
		case 'resource.changed': return { verb: 'description', tone: 'warn', about: e.resourceUri, more: ['changed'] };
		case 'server.state': return { verb: stateWords(e.state), tone: e.state === 'Ready' ? 'quiet' : tone(e.state) || 'quiet', text: [e.reason, e.error].filter(Boolean).join(', '), more: [e.retryInMs && `next attempt in ${(e.retryInMs / 1000).toFixed(1)} s`] };
		case 'subscription.active': return { verb: 'following', tone: 'quiet', text: [['resources', 'resource'], ['tools', 'tool'], ['prompts', 'prompt'], ['skills', 'skill']].filter(([k]) => typeof e[k] === 'number' && e[k]).map(([k, what]) => `${e[k]} ${what}${e[k] === 1 ? '' : 's'}`).join(', ') + (e.mode ? ` (${e.mode})` : ''), more: [] };
		case 'server.event': return { verb: 'event', tone: 'accent', text: e.name, more: [] };
		case 'server.card_changed': return { verb: 'card', tone: 'warn', text: !e.digest ? 'gone' : !e.previousDigest ? 'new' : (e.fields || []).map((f) => f === 'version' ? `version ${e.previousVersion || ''} to ${e.version || ''}` : f).join(', '), more: [] };
		case 'hook.received': return { verb: 'hook', tone: 'accent', text: e.hookId, more: [size(e.size)] };
		case 'lock.drift': return { verb: 'lock', tone: 'warn', text: e.reason || [e.item, e.state, ...(e.classes || []).map((c) => c.name)].join(' '), more: [] };
		case 'config.reloaded': return { verb: 'config', tone: 'accent', text: 'reloaded', more: [] };
		case 'config.rejected': return { verb: 'config', tone: 'bad', text: 'rejected' + (e.error ? ': ' + e.error : ''), more: [] };
		case 'gap': return { verb: 'gap', tone: 'bad', text: e.reason || 'events are missing', more: [] };
	}
	if (e.type?.startsWith('skill.')) return { verb: e.type.replace('.', ' '), tone: { added: 'good', changed: 'warn' }[e.type.slice(6)] || 'bad', about: e.resourceUri, more: [e.reason] };
	if (e.type?.endsWith('.list_changed')) return { verb: e.type.replace('.list_changed', ''), tone: e.error ? 'bad' : 'accent', text: listChange(e), more: [] };
	return { verb: e.type || '', tone: 'quiet', text: e.name || e.resourceUri || '', more: [] };
}

export function summary(e) {
	const d = describe(e);
	return line('', el('span', d.tone, visible(d.verb)), (d.about || d.text) && name(d.about || d.text), ...d.more);
}

export const fits = (filter, ...texts) => {
	const f = filter.trim().toLowerCase();
	return !f || texts.some((t) => (t || '').toLowerCase().includes(f));
};
export const narrow = matchMedia('(max-width: 900px)'); // as in app.css
