import { $, ago, clock, count, el, line } from './dom.js';

// showWebhooks shows where events are sent, and what fails there; on a cluster also which
// process sends them.
export function showWebhooks({ webhooks = [], moreWebhooks: more = 0, webhookDeliveries: deliveries = [] }) {
	$('webhooks').hidden = !webhooks.length && !deliveries.length;
	const failing = webhooks.filter((w) => w.state !== 'active').length;
	$('webhooks-summary').replaceChildren(line('', count(webhooks.length + more, 'webhook'), failing && el('span', 'bad', failing.toLocaleString() + ' failing')));
	const senders = deliveries.flatMap((d) => {
		let by = el('span', 'bad', d.waiting ? 'the sender is not known: ' + d.waiting : 'no process sends them');
		if (d.process && !d.waiting) by = el('span', '', 'sent by ' + d.process + (d.own ? ', this process' : ''));
		return [el('dt', '', d.source === 'config' ? 'webhooks of the config' : 'subscriptions of clients'), el('dd', '', line('', by))];
	});
	$('webhook-list').replaceChildren(...senders, ...webhooks.flatMap((w) => {
		const off = w.state === 'suspended', status = [el('span', w.state === 'active' ? 'good' : 'bad', off ? 'switched off' : w.state), w.event || w.format, w.delivered.toLocaleString() + ' delivered'];
		if (w.givenUp) status.push(w.givenUp.toLocaleString() + ' given up');
		if (w.state !== 'active' && w.lastError) status.push(w.lastError.replaceAll('_', ' '));
		if (w.failedSince) status.push(el('span', '', 'failing since ', clock(w.failedSince)));
		if (w.waiting && w.state !== 'active') status.push(w.waiting.toLocaleString() + (w.moreWaiting ? ' or more' : '') + ' waiting');
		if (w.nextAttempt) status.push('next attempt at ' + clock(w.nextAttempt));
		if (w.lagMs > 1000 && !off) status.push(Math.round(w.lagMs / 1000) + ' s behind');
		if (w.lastDelivery) status.push(el('span', '', 'last ', ago(w.lastDelivery)));
		return [el('dt', '', line('', w.host)), el('dd', '', line('', ...status), off && w.source === 'config' && line('', ' · to switch it on, change its entry, or run mcptrack webhooks --since 1d --webhook ' + w.host))];
	}));
}
