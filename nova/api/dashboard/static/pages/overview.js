// The first page: how much of the quota is used, what runs, what failed last.
import {html, useState} from '../core/html.js';
import {call, has} from '../core/api.js';
import {useLoad, useSoon} from '../core/load.js';
import {useServerEvents} from '../core/events.js';
import {may} from '../core/permissions.js';
import {link} from '../core/router.js';
import {required} from '../core/session.js';
import {bytes, mebibytes, number, t} from '../core/text.js';
import {SERVER_ACTIONS} from '../data/server_actions.js';
import {ActionDialog, ActionMenu, allowed} from '../parts/actions.js';
import {Ago, Badge, Busy, Card, Empty, Head, Meter, Refusal} from '../parts/basics.js';
import {Icon} from '../parts/icons.js';

const SHOWN = 6;

/** @param {AbortSignal} signal */
const limits = signal => call('compute', '/limits', {signal}).then(found => found.limits.absolute);
/** @param {AbortSignal} signal */
const volumeLimits = signal =>
  has('volume')
    ? call('volume', '/limits', {signal})
        .then(found => found.limits.absolute)
        .catch(() => null)
    : Promise.resolve(null);
/** MiB of images, with the limit. @param {AbortSignal} signal */
const imageUsage = signal =>
  has('image')
    ? call('image', '/info/usage', {signal})
        .then(found => found.usage?.image_size_total ?? null)
        .catch(() => null)
    : Promise.resolve(null);
/** @param {AbortSignal} signal */
const recent = signal =>
  call('compute', '/servers/detail', {signal, query: {limit: SHOWN, sort_key: 'updated_at', sort_dir: 'desc'}}).then(
    found => found.servers,
  );
/** @param {AbortSignal} signal */
const broken = signal =>
  call('compute', '/servers/detail', {
    signal,
    query: {limit: SHOWN, status: 'ERROR', sort_key: 'updated_at', sort_dir: 'desc'},
  }).then(found => found.servers);

export default function Overview() {
  const quota = useLoad(signal => Promise.all([limits(signal), volumeLimits(signal), imageUsage(signal)]), []);
  const last = useLoad(recent, []);
  const failed = useLoad(broken, []);
  const [doing, setDoing] = useState(/** @type {any} */ (null));
  const choose = (/** @type {any} */ action, /** @type {any} */ server) => setDoing({action, rows: [server]});
  const renew = () => {
    quota.reload();
    last.reload();
    failed.reload();
  };
  const soon = useSoon(renew);
  useServerEvents(soon, soon);
  const [compute, volume, images] = quota.data ?? [];
  return html`
    <${Head} title=${t('Overview')} note=${html`<span class="quiet thin">${required().project?.name}</span>`}>
      ${may('os_compute_api:servers:create') && html`<a class="button primary" href="#/create"><${Icon} name="plus" size=${16} /> ${t('Create server')}</a>`}</${Head}>
    <${Refusal} error=${quota.error} />
    <div class="grid">
      <${Card} title=${t('Quota')} class="span">
        ${
          !compute
            ? html`<${Busy} label=${t('Loading …')} />`
            : html`<div class="meters">
          <${Meter} label=${t('Servers')} used=${compute.totalInstancesUsed} total=${compute.maxTotalInstances} show=${number} />
          <${Meter} label=${t('Virtual CPUs')} used=${compute.totalCoresUsed} total=${compute.maxTotalCores} show=${number} />
          <${Meter} label=${t('Memory')} used=${compute.totalRAMUsed} total=${compute.maxTotalRAMSize} show=${mebibytes} />
          ${
            volume &&
            html`<${Meter} label=${t('Volumes')} used=${volume.totalVolumesUsed} total=${volume.maxTotalVolumes} show=${number} />
            <${Meter} label=${t('Volume storage')} used=${volume.totalGigabytesUsed} total=${volume.maxTotalVolumeGigabytes} show=${(/** @type {number} */ size) => bytes(size * 2 ** 30)} />`
          }
          ${images && html`<${Meter} label=${t('Image storage')} used=${images.usage} total=${images.limit} show=${mebibytes} />`}
        </div>`
        }
      </${Card}>
      <${Card} title=${t('Recently changed')} action=${html`<a href="#/servers">${t('All servers')}</a>`}>
        <${Brief} loaded=${last} onChoose=${choose} empty=${t('There are no servers yet.')} /></${Card}>
      <${Card} title=${t('Latest failures')}><${Brief} loaded=${failed} onChoose=${choose} empty=${t('No server has failed.')} /></${Card}>
    </div>
    ${doing && html`<${ActionDialog} ...${doing} nameOf=${(/** @type {any} */ row) => row.name} onClose=${() => setDoing(null)} onDone=${renew} />`}`;
}

/** @param {{loaded: import('../core/load.js').Loaded<any[]>, empty: string, onChoose: (action: any, server: any) => void}} props */
const Brief = ({loaded, empty, onChoose}) => html`
  <${Refusal} error=${loaded.error} />
  ${loaded.data && !loaded.data.length && html`<${Empty} icon="server" text=${empty} />`}
  <ul class="brief">${(loaded.data ?? []).map(
    server => html`
    <li key=${server.id}><a href=${link('servers', server.id)}>${server.name}</a><${Badge} state=${server.status} task=${server['OS-EXT-STS:task_state']} />
      <span class="quiet"><${Ago} at=${server.updated} /></span>
      <${ActionMenu} label=${t('Actions of {name}', {name: server.name})} actions=${allowed(SERVER_ACTIONS, server)} onChoose=${(/** @type {any} */ action) => onChoose(action, server)} />${server.fault && html`<p class="quiet">${server.fault.message}</p>`}</li>`,
  )}</ul>`;
