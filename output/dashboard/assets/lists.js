// The lists of servers and resources: filters, order and rows.
import { List } from './list.js';
import { ago, clock, count, element, line, name, size, visible } from './dom.js';
import { go, state } from './state.js';

const $ = (id) => document.getElementById(id);
const failing = { Backoff: 0, NeedsAuth: 1, Unapproved: 2, Unconfigured: 3, Unsupported: 4, Connecting: 5, Pending: 6, Stopping: 7 };
export const tone = (s) => ({ Ready: 'good', Backoff: 'bad', NeedsAuth: 'bad', Unsupported: 'warn', Unconfigured: 'warn', Unapproved: 'warn', Connecting: 'warn' }[s] || '');
export const badge = (s) => element('span', 'badge ' + tone(s.state), visible(s.reason || s.state));
export const modes = { push: 'pushed by the server', poll: 'found by polling' };
export const fits = (filter, ...texts) => {
  const f = filter.trim().toLowerCase();
  return !f || texts.some((t) => (t || '').toLowerCase().includes(f));
};
export const narrow = matchMedia('(max-width: 900px)'); // as in app.css

const serverList = new List($('server-list'), {
  height: 62,
  fill(row, s) {
    const about = s.error ? name(s.error, 'sub') : line('sub', s.transport, s.protocolVersion, s.serverName, s.serverVersion);
    const remedy = s.state === 'NeedsAuth' ? (s.error || '').lastIndexOf('run mcptrack login ') : -1; // the row is too narrow for all of it
    const more = remedy >= 0 ? s.error.slice(remedy) : s.state === 'Backoff' && s.nextRetry ? `attempt ${s.attempt}, next at ${clock(s.nextRetry)}`
      : [count(s.resources, 'resource') + (s.mode === 'poll' ? ' (polled)' : '') + (s.missing ? `, ${s.missing} polled` : ''), count(s.tools, 'tool'), count(s.updates, 'update')].join(' · ');
    row.replaceChildren(name(s.id), ' ', badge(s), about, element('span', 'sub', visible(more)));
    row.title = visible(s.error || s.reason || '');
  },
  pick(s) { go({ server: s.id, uri: '', event: '', tab: '', from: '', to: '', view: 'detail' }, true); },
});

const resourceList = new List($('resource-list'), {
  height: 44,
  fill(row, r) {
    row.replaceChildren(name(r.uri, 'mono'), line('sub', r.name, r.mimeType, r.gone ? 'removed' : size(r.size), r.changed && element('span', '', 'changed ', ago(r.changed))));
    row.title = visible(r.uri);
  },
  pick(r) { go({ uri: r.uri, event: '', tab: ['content', 'diff', 'history'].includes(state.tab) ? state.tab : '', from: '', to: '', view: 'detail' }, true); },
});

const orders = {
  '': (a, b) => (failing[a.state] ?? 9) - (failing[b.state] ?? 9),
  name: () => 0,
  updates: (a, b) => b.updates - a.updates,
};
const resourceOrders = {
  '': () => 0,
  changed: (a, b) => (b.changed || '').localeCompare(a.changed || ''),
  size: (a, b) => b.size - a.size,
};

const isFailing = (s) => s.state !== 'Ready' && s.state !== 'Disabled';

// showServers shows those that match, each with all of the words on its badge.
export function showServers(servers) {
  const states = [...new Set(servers.map((s) => s.state))].sort();
  const options = [['', 'All states'], ['failing', 'Not ready'], ...states.map((s) => [s, s])];
  const select = $('server-state');
  if (select.options.length !== options.length || options.some(([v], i) => select.options[i].value !== v)) {
    select.replaceChildren(...options.map(([value, label]) => new Option(label, value)));
  }
  select.value = state.state;
  const wanted = (s) => !state.state || (state.state === 'failing' ? isFailing(s) : s.state === state.state);
  const order = orders[state.sort] || orders[''];
  const rows = servers.filter((s) => wanted(s) && fits(state.filter, s.id, s.state, s.reason, s.error, s.transport, s.era, s.mode, s.serverName))
    .sort((a, b) => order(a, b) || (a.id < b.id ? -1 : 1)).map((s) => ({ ...s, key: s.id }));
  serverList.set(rows, state.server);
  return rows;
}

export function showResources(resources) {
  $('resources-title').replaceChildren(...(state.server ? ['Resources of ', name(state.server)] : ['Resources']));
  const order = resourceOrders[state.rsort] || resourceOrders[''];
  resourceList.set(resources.filter((r) => fits(state.rfilter, r.uri, r.name, r.mimeType, r.gone ? 'removed' : '')).sort(order).map((r) => ({ ...r, key: r.uri })), state.uri);
}

const fit = () => resourceList.resize(narrow.matches ? 52 : 44);
narrow.addEventListener('change', fit);
fit();
