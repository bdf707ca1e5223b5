// One server: what can be done, what it is, what happened to it, what it says, what hangs on it.
import {html, useEffect, useRef, useState} from '../core/html.js';
import {call, has} from '../core/api.js';
import {useServerEvents} from '../core/events.js';
import {offer} from '../core/here.js';
import {useLoad, useSoon} from '../core/load.js';
import {isShown, link} from '../core/router.js';
import {may} from '../core/permissions.js';
import {isAdmin} from '../core/session.js';
import {date, mebibytes, bytes, span, t} from '../core/text.js';
import {CONSOLES, SERVER_ACTIONS, consolePage, consoleRequest, hasConsole} from '../data/server_actions.js';
import {PARTS} from '../data/server_parts.js';
import {addresses, source} from '../data/servers.js';
import {ActionDialog, ActionMenu, allowed, offered} from '../parts/actions.js';
import {Ago, Badge, Busy, Card, Empty, Facts, Head, Refusal, Tabs} from '../parts/basics.js';
import {Icon} from '../parts/icons.js';
import {Named} from '../parts/named.js';
import {Table} from '../parts/table.js';
import {ServerUsage} from './server_usage.js';

const LOG_LINES = 300,
  LOG_MS = 4000,
  LOG_MOST_MS = 60000;

/** @param {{id: string, tab: string}} props */
export function Server({id, tab}) {
  const loaded = useLoad(
    signal => call('compute', `/servers/${encodeURIComponent(id)}`, {signal}).then(found => found.server),
    [id],
  );
  const [doing, setDoing] = useState(/** @type {any} */ (null));
  const [round, setRound] = useState(0);
  const next = () => setRound((/** @type {number} */ before) => before + 1);
  const soon = useSoon(next);
  const renew = () => {
    loaded.reload();
    next();
  };
  const live = useServerEvents(server => {
    if (server.id !== id) return;
    loaded.reload();
    soon();
  }, renew);
  const server = loaded.data;
  const doable = server ? allowed(SERVER_ACTIONS, server) : [];
  useEffect(() => {
    const adding = PARTS.filter(part => !part.service || has(part.service)).flatMap(part => (part.add && offered(part.add) ? [part.add] : []));
    const entries = (/** @type {any[]} */ found) => () => found.map(action => ({label: t(action.label), run: () => setDoing({action, rows: [server]})}));
    offer(entries(doable), entries(adding)); // pages of the same name come before what is added to the server
    return () => offer();
  }, [server]);
  if (!server)
    return loaded.error
      ? html`<${Head} title=${t('Server')} back=${['#/servers', t('Servers')]} /><${Refusal} error=${loaded.error} />`
      : html`<${Busy} label=${t('Loading …')} />`;
  const choose = (/** @type {any} */ action, /** @type {any} */ row = server) => setDoing({action, rows: [row]});
  const tabs = [
    {name: 'overview', label: t('Overview')},
    ...(may(USAGE) ? [{name: 'usage', label: t('Usage')}] : []),
    {name: 'timeline', label: t('Timeline')},
    ...(may('os_compute_api:os-remote-consoles') && hasConsole(server) ? [{name: 'console', label: t('Console')}] : []),
    ...(may(LOG) ? [{name: 'log', label: t('Console log')}] : []),
    ...PARTS.filter(part => !part.service || has(part.service)).map(part => ({name: part.name, label: t(part.title)})),
  ];
  const part = PARTS.find(one => one.name === tab);
  return html`
    <${Head} title=${server.name} back=${['#/servers', t('Servers')]} note=${html`<span class="thin"><${Badge} state=${server.status} task=${server['OS-EXT-STS:task_state']} /></span>`}>
      <span class="live ${live ? 'on' : ''}">${live ? t('Live') : t('Not live')}</span>
      ${doable
        .filter(action => action.main)
        .slice(0, 3)
        .map(
          action =>
            html`<button type="button" onClick=${() => choose(action)}>${action.name === 'console' && html`<${Icon} name="console" size=${16} />`}${t(action.label)}</button>`,
        )}
      <${ActionMenu} text=${t('Actions')} label=${t('Actions of {name}', {name: server.name})} actions=${doable} onChoose=${choose} /></${Head}>
    <${Refusal} error=${loaded.error} />
    ${server.fault && html`<p class="refusal"><strong>${server.fault.message}</strong>${server.fault.details && html`<br />${server.fault.details}`}${isAdmin() && html` <a href=${'#/explain?server=' + id}>${t('Why no host?')}</a>`}</p>`}
    <${Tabs} tabs=${tabs} chosen=${tab} href=${(/** @type {string} */ name) => link('servers', id, name)} />
    ${
      tab === 'overview'
        ? html`<${Overview} server=${server} />`
        : tab === 'usage'
          ? html`<${ServerUsage} server=${server} />`
        : tab === 'timeline'
          ? html`<${Timeline} id=${id} round=${round} />`
          : tab === 'log'
            ? html`<${ConsoleLog} id=${id} />`
            : tab === 'console'
            ? html`<${Console} server=${server} />`
            : part
              ? html`<${Part} key=${part.name} ...${{part, server, round, choose}} />`
              : html`<${Empty} text=${t('There is no such page.')} />`
    }
    ${
      doing &&
      html`<${ActionDialog} ...${doing} nameOf=${(/** @type {any} */ row) => row.name || row.id || row.key || ''} onClose=${() => setDoing(null)}
      onDone=${() => {
        renew();
        if (doing.action.name === 'delete' && doing.rows[0].id === id && isShown('servers', id)) location.hash = '#/servers';
      }} />`
    }`;
}

/** @param {{server: any}} props */
const Overview = ({server}) => html`
  <div class="grid">
    <${Card} title=${t('Server')}><${Facts} rows=${[
      [t('Id'), html`<span class="mono">${server.id}</span>`],
      [t('Description'), server.description],
      [t('Addresses'), html`<span class="mono">${addresses(server).join(', ') || '–'}</span>`],
      [t('Image'), source(server)],
      [t('Key pair'), server.key_name],
      [t('Created'), date(server.created)],
      [t('Started'), server['OS-SRV-USG:launched_at'] && date(server['OS-SRV-USG:launched_at'])],
      [t('Changed'), date(server.updated)],
      [t('Locked'), server.locked ? server.locked_reason || t('yes') : ''],
    ]} /></${Card}>
    <${Card} title=${t('Flavor')}><${Facts} rows=${[
      [t('Name'), server.flavor?.original_name],
      [t('Virtual CPUs'), server.flavor?.vcpus],
      [t('Memory'), mebibytes(server.flavor?.ram)],
      [t('Root disk'), bytes(server.flavor?.disk * 2 ** 30)],
      [t('Ephemeral disk'), server.flavor?.ephemeral ? bytes(server.flavor.ephemeral * 2 ** 30) : ''],
      [t('Swap'), server.flavor?.swap ? mebibytes(server.flavor.swap) : ''],
      ...Object.entries(server.flavor?.extra_specs ?? {}),
    ]} /></${Card}>
    <${Card} title=${t('Location')}><${Facts} rows=${[
      [t('Zone'), server['OS-EXT-AZ:availability_zone']],
      [t('Host'), server['OS-EXT-SRV-ATTR:host']],
      [t('Node'), server['OS-EXT-SRV-ATTR:hypervisor_hostname']],
      [t('Name on the host'), server['OS-EXT-SRV-ATTR:instance_name']],
      [
        t('Server group'),
        !!server.server_groups?.length &&
          server.server_groups.map(
            (/** @type {string} */ group) => html`<${Named} kind="server-group" id=${group} /> `,
          ),
      ],
      [
        t('Security groups'),
        [...new Set((server.security_groups ?? []).map((/** @type {any} */ group) => group.name))].join(', '),
      ],
      [t('Host status'), server.host_status],
      [t('Project'), html`<${Named} kind="project" id=${server.tenant_id} />`],
      [t('User'), html`<${Named} kind="user" id=${server.user_id} plain />`],
    ]} /></${Card}>
    <${Card} title=${t('Tags')}><div class="chips">${(server.tags ?? []).map((/** @type {string} */ tag) => html`<span class="chip">${tag}</span>`)}${!server.tags?.length && html`<span class="quiet">${t('There are none.')}</span>`}</div></${Card}>
  </div>`;

/** What was done to it, the newest first. @param {{id: string, round: number}} props */
function Timeline({id, round}) {
  const loaded = useLoad(
    async signal => {
      const {instanceActions} = await call('compute', `/servers/${id}/os-instance-actions`, {
        signal,
        query: {limit: 50},
      });
      return Promise.all(
        instanceActions.map((/** @type {any} */ action, /** @type {number} */ place) =>
          place > 14
            ? action
            : call('compute', `/servers/${id}/os-instance-actions/${action.request_id}`, {signal}).then(
                found => found.instanceAction,
              ),
        ),
      );
    },
    [id, round],
  );
  if (!loaded.data)
    return loaded.error ? html`<${Refusal} error=${loaded.error} />` : html`<${Busy} label=${t('Loading …')} />`;
  return html`<ol class="timeline">${loaded.data.map(
    action => html`
    <li key=${action.request_id} class=${action.message ? 'bad' : ''}><div class="timeline-head"><strong>${action.action}</strong><${Ago} at=${action.start_time} />
      <span class="quiet mono">${action.request_id}</span></div>${action.message && html`<p class="refusal">${action.message}</p>`}
      <ul>${(action.events ?? [])
        .slice()
        .reverse()
        .map(
          (/** @type {any} */ event) => html`
        <li><${Badge} state=${event.result ?? 'running'} /> <span>${event.event.replace(/^compute_/, '').replaceAll('_', ' ')}</span> <span class="quiet">${span(event.start_time, event.finish_time)}${event.host ? ` · ${event.host}` : ''}</span>
          ${event.details && html`<p class="quiet">${event.details}</p>`}</li>`,
        )}</ul></li>`,
  )}</ol>`;
}

const LOG = 'os_compute_api:os-console-output',
  USAGE = 'nova:servers:metrics';

/** A console in the page. Consoles of another origin open in a tab of their own. @param {{server: any}} props */
function Console({server}) {
  const [kind, setKind] = useState('novnc');
  const [state, setState] = useState(/** @type {{url?: string, error?: Error, busy?: boolean}} */ ({}));
  const frame = useRef(/** @type {HTMLIFrameElement | null} */ (null));
  const connect = async () => {
    setState({busy: true});
    try {
      const {path, ...asked} = consoleRequest(server, kind);
      setState({url: consolePage(await call('compute', path, asked))});
    } catch (error) {
      setState({error: /** @type {Error} */ (error)});
    }
  };
  const inside = state.url && new URL(state.url).origin === location.origin;
  return html`
    <div class="toolbar"><label class="inline">${t('Console')} <select value=${kind} onChange=${(/** @type {any} */ event) => setKind(event.target.value)}>${CONSOLES.map(one => html`<option value=${one.value} selected=${one.value === kind}>${t(one.label)}</option>`)}</select></label>
      <button type="button" class="primary" disabled=${state.busy} onClick=${connect}>${state.url ? t('Connect again') : t('Connect')}</button>
      ${inside && html`<button type="button" onClick=${() => frame.current?.requestFullscreen()}>${t('Full screen')}</button>`}</div>
    <${Refusal} error=${state.error ?? null} />
    ${state.url && !inside && html`<p><a class="button primary" href=${state.url} target="_blank" rel="noopener noreferrer">${t('Open the console')}</a></p>`}
    ${inside && html`<iframe class="console" ref=${frame} src=${state.url} title=${t('Console of {name}', {name: server.name})} allow="fullscreen; clipboard-read; clipboard-write"></iframe>`}`;
}

/** The end of what the guest writes to its serial line, read again while it is looked at. @param {{id: string}} props */
function ConsoleLog({id}) {
  const [text, setText] = useState('');
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [running, setRunning] = useState(true);
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!running) return;
    const control = new AbortController();
    let timer = 0,
      wait = LOG_MS,
      before = '';
    const read = async () => {
      try {
        if (!document.hidden) {
          const {output} = await call('compute', `/servers/${id}/action`, {
            method: 'POST',
            body: {'os-getConsoleOutput': {length: LOG_LINES}},
            signal: control.signal,
          });
          wait = output === before ? Math.min(2 * wait, LOG_MOST_MS) : LOG_MS; // each read is a line of the audit log
          before = output;
          setText(output);
          setError(null);
        }
        timer = setTimeout(read, wait);
      } catch (why) {
        if (!control.signal.aborted) {
          setError(/** @type {Error} */ (why));
          setRunning(false);
        }
      }
    };
    read();
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [id, running]);
  useEffect(() => {
    if (frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  }, [text]);
  return html`
    <div class="toolbar"><label class="inline"><input type="checkbox" checked=${running} onChange=${() => setRunning(!running)} /> ${t('Follow')}</label><span class="quiet">${t('The last {count} lines', {count: LOG_LINES})}</span></div>
    <${Refusal} error=${error} />
    <pre class="log" tabindex="0" ref=${frame} aria-label=${t('Console log')}>${text || t('The log is empty.')}</pre>`;
}

/** A list of what hangs on a server. @param {{part: import('../data/server_parts.js').Part, server: any, round: number, choose: (action: any, row: any) => void}} props */
function Part({part, server, round, choose}) {
  const loaded = useLoad(signal => part.read(server, signal), [server.id, round]);
  const rows = loaded.data ?? [];
  return html`
    <div class="toolbar"><span class="grow"></span>${part.add && offered(part.add) && html`<button type="button" onClick=${() => choose(part.add, server)}><${Icon} name="plus" size=${16} /> ${t(part.add.label)}</button>`}</div>
    <${Refusal} error=${loaded.error} />
    ${loaded.data && !rows.length && html`<${Empty} text=${t('There are none.')} />`}
    ${
      rows.length > 0 &&
      html`<${Table} label=${t(part.title)} columns=${part.columns} rows=${rows} idOf=${part.id} nameOf=${part.id} sort=${null} sortable=${() => false} onSort=${() => null}
      actions=${part.actions} onAction=${(/** @type {any} */ action, /** @type {any[]} */ on) => choose(action, on[0])} selected=${new Set()} onSelect=${null} />`
    }`;
}
