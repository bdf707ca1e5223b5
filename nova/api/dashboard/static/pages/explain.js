// Why a server found no host, or where it would go now: filter by filter, and which hosts came nearest.
import {html, useState} from '../core/html.js';
import {call} from '../core/api.js';
import {useLoad} from '../core/load.js';
import {anyServers} from '../core/options.js';
import {setQuery} from '../core/router.js';
import {mebibytes, number, t} from '../core/text.js';
import {Ago, Busy, Card, Empty, Facts, Head, Refusal} from '../parts/basics.js';
import {Fields} from '../parts/form.js';

/** @type {import('../parts/form.js').Field} */
const SERVER = {name: 'server', label: 'Server', type: 'find', none: 'none', depends: ['server'], options: anyServers};

/** @param {{query: URLSearchParams}} props */
export default function Explain({query}) {
  const [server, setServer] = useState(query.get('server') ?? '');
  const failed = useLoad(
    signal =>
      call('compute', '/servers/detail', {
        signal,
        query: {all_tenants: 1, status: 'ERROR', limit: 20, sort_key: 'updated_at', sort_dir: 'desc'},
      }).then(found => found.servers),
    [],
  );
  const found = useLoad(
    async signal =>
      server
        ? (
            await call('compute', '/os-scheduler/explain', {
              method: 'POST',
              signal,
              body: {server_id: server},
              query: {limit: 10},
            })
          ).explanation
        : null,
    [server],
  );
  const choose = (/** @type {string} */ id) => {
    setServer(id);
    setQuery({server: id});
  };
  return html`
    <${Head} title=${t('Why no host?')} />
    <div class="grid">
      <${Card} title=${t('Server')}><${Fields} fields=${[SERVER]} values=${{server}} onChange=${(/** @type {any} */ change) => choose(change({server}).server)} /></${Card}>
      <${Card} title=${t('Latest failed servers')}><${Refusal} error=${failed.error} />${failed.data && !failed.data.length && html`<${Empty} icon="server" text=${t('No server has failed.')} />`}
        <ul class="brief">${(failed.data ?? []).map((/** @type {any} */ row) => html`<li key=${row.id}><button type="button" class="small" aria-pressed=${row.id === server} onClick=${() => choose(row.id)}>${row.name}</button><span></span><span class="quiet"><${Ago} at=${row.updated} /></span>${row.fault && html`<p class="quiet">${row.fault.message}</p>`}</li>`)}</ul></${Card}>
      ${server && (found.error ? html`<${Refusal} error=${found.error} />` : !found.data ? html`<${Busy} label=${t('Loading …')} />` : html`<${Explanation} found=${found.data} />`)}
    </div>`;
}

/** @param {{found: any}} props */
const Explanation = ({found}) => html`
  <${Card} title=${t('Placement now')}>
    ${found.reason ? html`<p class="refusal">${found.reason}</p>` : ''}
    <${Facts} rows=${[
      [t('Requested'), `${found.requested.vcpus} vCPU, ${mebibytes(found.requested.memory_mb)}, ${found.requested.local_gb} GiB`],
      [t('Hosts'), number(found.hosts)],
      [t('Remaining'), number(found.remaining)],
      [t('Selected hosts'), found.choices.map((/** @type {any} */ one) => one.host).join(', ')],
    ]} /></${Card}>
  <${Card} title=${t('Filters')} class="span"><ol class="funnel">${found.filters
    .filter((/** @type {any} */ row) => row.applies)
    .map(
      (/** @type {any} */ row) => html`
    <li class=${row.removed ? 'bad' : ''}><div class="funnel-bar" style=${{width: `${found.hosts ? (row.passed / found.hosts) * 100 : 0}%`}}></div><strong>${row.name}</strong><span>${t('{count} left', {count: number(row.passed)})}${row.removed ? ` · −${number(row.removed)}` : ''}</span>${row.removed > 0 && html`<p>${row.reason}</p>`}</li>`,
    )}</ol></${Card}>
  ${found.nearest.length > 0 && html`<${Card} title=${t('Nearest misses')} class="span"><ul class="brief wide">${found.nearest.map((/** @type {any} */ row) => html`<li><strong>${row.host}</strong><p class="quiet">${row.failed_filters.map((/** @type {any} */ one) => `${one.filter}: ${one.reason}`).join('; ')}</p></li>`)}</ul></${Card}>`}`;
