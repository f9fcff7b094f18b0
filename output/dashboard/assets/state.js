// What the page shows is in the URL, so that it can be reloaded, shared and left with
// the back button. Members with their default value are left out.
const members = ['server', 'uri', 'event', 'tab', 'from', 'to', 'view', 'filter', 'state', 'sort', 'rfilter', 'rsort', 'efilter', 'range', 'scope'];
export const state = {};
let changed = () => {};

function read() {
  const query = new URLSearchParams(location.search);
  for (const m of members) state[m] = query.get(m) || '';
}

// start reads the URL and calls back at every change.
export function start(onChange) {
  changed = onChange;
  read();
  addEventListener('popstate', () => { read(); changed(); });
}

// go changes members. With push, the back button leads to what was shown before.
export function go(patch, push = false) {
  Object.assign(state, patch);
  const query = new URLSearchParams(members.filter((m) => state[m]).map((m) => [m, state[m]]));
  const url = query.size ? '/?' + query : '/';
  if (url !== location.pathname + location.search) {
    if (push) history.pushState(null, '', url);
    else history.replaceState(null, '', url);
  }
  changed();
}

const patience = 30000; // ms until a request has failed

// get reads JSON. A login that has expired leads to the login page.
export async function get(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(patience) });
  if (response.status === 401) location.assign('/login?next=' + encodeURIComponent('/' + location.search));
  if (!response.ok) throw new Error(response.statusText);
  return response.json();
}

export const api = (server, what, query = {}) => `/api/servers/${encodeURIComponent(server)}${what}${Object.keys(query).length ? '?' + new URLSearchParams(query) : ''}`;
