// The project's networks and what is on them, as a picture; a list says the same to who does not see it.
import {html} from '../core/html.js';
import {call} from '../core/api.js';
import {useLoad} from '../core/load.js';
import {link} from '../core/router.js';
import {t} from '../core/text.js';
import {Badge, Busy, Empty, Head, Refusal} from '../parts/basics.js';

const MOST = 200; // servers that a picture shows

/** @param {AbortSignal} signal */
async function read(signal) {
  const [networks, subnets, ports, servers, floating] = await Promise.all([
    call('network', '/networks', {signal}),
    call('network', '/subnets', {signal}),
    call('network', '/ports', {signal}),
    call('compute', '/servers/detail', {signal, query: {limit: MOST}}),
    call('network', '/floatingips', {signal}).catch(() => ({floatingips: []})),
  ]);
  const known = new Map(servers.servers.map((/** @type {any} */ server) => [server.id, server]));
  return networks.networks.map((/** @type {any} */ network) => ({
    ...network,
    nets: subnets.subnets.filter((/** @type {any} */ one) => one.network_id === network.id),
    on: ports.ports
      .filter((/** @type {any} */ port) => port.network_id === network.id && known.has(port.device_id))
      .map((/** @type {any} */ port) => ({
        port,
        server: known.get(port.device_id),
        floating: floating.floatingips.find((/** @type {any} */ one) => one.port_id === port.id),
      })),
  }));
}

export default function Topology() {
  const loaded = useLoad(read, []);
  return html`
    <${Head} title=${t('Topology')} />
    <${Refusal} error=${loaded.error} />
    ${!loaded.data && loaded.loading && html`<${Busy} label=${t('Loading …')} />`}
    ${loaded.data && !loaded.data.length && html`<${Empty} icon="network" text=${t('There are no networks.')} />`}
    <div class="topology">${(loaded.data ?? []).map(
      (/** @type {any} */ network, /** @type {number} */ place) => html`
      <section class="wire tone-${place % 6}" key=${network.id}>
        <header><h2><a href=${link('networks', network.id)}>${network.name || network.id}</a></h2><span class="quiet mono">${network.nets.map((/** @type {any} */ one) => one.cidr).join(', ')}</span></header>
        <ul>${network.on.map(
          (/** @type {any} */ {port, server, floating}) => html`
          <li key=${port.id}><a href=${link('servers', server.id)}>${server.name}</a><${Badge} state=${server.status} />
            <span class="mono">${port.fixed_ips?.map((/** @type {any} */ ip) => ip.ip_address).join(', ')}</span>${floating && html`<span class="chip">${floating.floating_ip_address}</span>`}</li>`,
        )}
          ${!network.on.length && html`<li class="quiet">${t('No server of the project.')}</li>`}</ul>
      </section>`,
    )}</div>`;
}
