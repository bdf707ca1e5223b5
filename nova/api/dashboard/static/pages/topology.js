// The networks of the project with their routers, servers and floating addresses: a picture that can be zoomed, and a list.
import {html, useEffect, useMemo, useRef, useState} from '../core/html.js';
import {all, call} from '../core/api.js';
import {useLoad} from '../core/load.js';
import {link} from '../core/router.js';
import {t} from '../core/text.js';
import {Badge, Busy, Card, Empty, Facts, Head, Refusal, Tabs} from '../parts/basics.js';

const BOX = {width: 150, height: 44, gap: 12}; // of servers and routers
const COLUMNS = 6; // servers side by side below a network, more if there are many
const ZOOM = {least: 0.15, most: 3, step: 1.25};
const TONES = 6;

/** @param {AbortSignal} signal */
async function read(signal) {
  const [networks, subnets, ports, servers, floating, routers] = await Promise.all([
    call('network', '/networks', {signal}),
    call('network', '/subnets', {signal}),
    call('network', '/ports', {signal}),
    all('compute', '/servers/detail', 'servers', {signal}),
    call('network', '/floatingips', {signal}).catch(() => ({floatingips: []})),
    call('network', '/routers', {signal}).catch(() => ({routers: []})),
  ]);
  const known = new Map(servers.map((/** @type {any} */ server) => [server.id, server]));
  const leading = new Map(floating.floatingips.map((/** @type {any} */ one) => [one.port_id, one]));
  return {
    routers: routers.routers.map((/** @type {any} */ router) => ({
      ...router,
      gateway: router.external_gateway_info?.network_id ?? null,
      joins: [
        ...new Set(
          ports.ports
            .filter((/** @type {any} */ port) => port.device_id === router.id && port.device_owner === 'network:router_interface')
            .map((/** @type {any} */ port) => port.network_id),
        ),
      ],
    })),
    networks: networks.networks.map((/** @type {any} */ network) => ({
      ...network,
      external: network['router:external'],
      nets: subnets.subnets.filter((/** @type {any} */ one) => one.network_id === network.id),
      on: ports.ports
        .filter((/** @type {any} */ port) => port.network_id === network.id && known.has(port.device_id))
        .map((/** @type {any} */ port) => ({port, server: known.get(port.device_id), floating: leading.get(port.id)})),
    })),
  };
}

/**
 * Places of all boxes: external networks at the top, routers below them, the other networks side by side with their servers.
 * @param {any} data
 */
function placed(data) {
  /** @type {any[]} */
  const nodes = [];
  /** @type {any[]} */
  const lines = [];
  const inner = data.networks.filter((/** @type {any} */ one) => !one.external);
  const outer = data.networks.filter((/** @type {any} */ one) => one.external);
  const step = BOX.width + BOX.gap;
  let left = 0;
  /** @type {Map<string, any>} */
  const at = new Map();
  for (const network of inner) {
    const across = Math.max(1, Math.min(network.on.length, Math.max(COLUMNS, Math.ceil(Math.sqrt(network.on.length / 1.6)))));
    const width = Math.max(across * step - BOX.gap, BOX.width * 1.4);
    const bar = {kind: 'network', id: network.id, row: network, x: left, y: 250, width, height: 34};
    at.set(network.id, bar);
    nodes.push(bar);
    network.on.forEach((/** @type {any} */ on, /** @type {number} */ place) =>
      nodes.push({
        kind: 'server',
        id: on.port.id,
        row: on,
        x: left + (place % across) * step,
        y: 310 + Math.floor(place / across) * (BOX.height + BOX.gap),
        width: BOX.width,
        height: BOX.height,
      }),
    );
    left += width + 50;
  }
  const whole = Math.max(left - 50, 400);
  const spread = (/** @type {any[]} */ rows, /** @type {string} */ kind, /** @type {number} */ y, /** @type {number} */ width) =>
    rows.forEach((row, place) => {
      const node = {kind, id: row.id, row, x: ((place + 0.5) * Math.max(whole, rows.length * (width + 30))) / rows.length - width / 2, y, width, height: 36};
      at.set(row.id, node);
      nodes.push(node);
    });
  spread(outer, 'network', 20, 220);
  spread(data.routers, 'router', 130, BOX.width);
  const join = (/** @type {any} */ upper, /** @type {any} */ lower) =>
    upper && lower && lines.push({x1: upper.x + upper.width / 2, y1: upper.y + upper.height, x2: lower.x + lower.width / 2, y2: lower.y});
  for (const router of data.routers) {
    join(at.get(router.gateway), at.get(router.id));
    for (const network of router.joins) join(at.get(router.id), at.get(network));
  }
  return {
    nodes,
    lines,
    width: Math.max(whole, ...nodes.map(node => node.x + node.width)) + 40,
    height: Math.max(420, ...nodes.map(node => node.y + node.height)) + 40,
  };
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + '…' : text);
const nameOf = (/** @type {any} */ node) => (node.kind === 'server' ? node.row.server.name : node.row.name || node.id.slice(0, 8));
/** @type {Record<string, string>} */
const PAGES = {network: 'networks', router: 'routers', server: 'servers'};
const hrefOf = (/** @type {any} */ node) => link(PAGES[node.kind], node.kind === 'server' ? node.row.server.id : node.id);
const addresses = (/** @type {any} */ port) => port.fixed_ips?.map((/** @type {any} */ ip) => ip.ip_address).join(', ');

/** @param {{node: any, tone: number, chosen: boolean, onChoose: () => void}} props */
function Node({node, tone, chosen, onChoose}) {
  const {kind, row} = node;
  const below = kind === 'server' ? addresses(row.port) : kind === 'router' ? row.status : row.nets.map((/** @type {any} */ one) => one.cidr).join(', ');
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      onChoose();
    }
  };
  return html`<g class="node ${kind} tone-${tone} ${chosen ? 'chosen' : ''} ${kind === 'server' && row.server.status === 'ERROR' ? 'bad' : ''}" role="button" tabindex="0"
      aria-description=${kind === 'server' ? t('Server') : kind === 'router' ? t('Router') : t('Network')} aria-pressed=${chosen}
      transform=${`translate(${node.x} ${node.y})`} onClick=${onChoose} onKeyDown=${keys}>
    <rect width=${node.width} height=${node.height} rx="7" />
    <text x="10" y=${kind === 'server' ? 18 : 22}>${cut(nameOf(node), Math.floor(node.width / (kind === 'network' ? 14 : 8)))}</text>
    ${kind === 'network' ? html`<text class="small" x=${node.width - 10} y="22" text-anchor="end">${cut(below, Math.floor(node.width / 13))}</text>` : kind === 'server' && html`<text class="small" x="10" y="35">${cut(below, 21)}</text>`}
    ${row.floating && html`<circle cx=${node.width - 12} cy="12" r="5"><title>${row.floating.floating_ip_address}</title></circle>`}
  </g>`;
}

/** What is known about the chosen thing. @param {{node: any}} props */
function Chosen({node}) {
  const {kind, row} = node;
  /** @type {[string, any][]} */
  const facts =
    kind === 'server'
      ? [
          [t('Status'), html`<${Badge} state=${row.server.status} />`],
          [t('Addresses'), addresses(row.port)],
          [t('Floating address'), row.floating && html`<a href=${link('floating-ips', row.floating.id)}>${row.floating.floating_ip_address}</a>`],
          [t('Port'), html`<a href=${link('ports', row.port.id)}>${row.port.name || row.port.id.slice(0, 8)}</a>`],
        ]
      : kind === 'router'
        ? [
            [t('Status'), html`<${Badge} state=${row.status} />`],
            [t('Reason'), row.status_reason],
            [t('Static routes'), row.routes.length || ''],
          ]
        : [
            [t('Subnets'), row.nets.map((/** @type {any} */ one) => one.cidr).join(', ')],
            [t('Servers'), row.on.length],
          ];
  return html`<div aria-live="polite"><${Card} title=${nameOf(node)} action=${html`<a class="button small" href=${hrefOf(node)}>${t('Open')}</a>`}><${Facts} rows=${facts} /></${Card}></div>`;
}

/** @param {{data: any}} props */
function Picture({data}) {
  const found = useMemo(() => placed(data), [data]);
  const tones = new Map(data.networks.map((/** @type {any} */ network, /** @type {number} */ place) => [network.id, place % TONES]));
  const [view, setView] = useState({x: -20, y: 0, zoom: 1});
  const [chosen, setChosen] = useState('');
  const frame = useRef(/** @type {SVGSVGElement | null} */ (null));
  const drag = useRef(/** @type {any} */ (null));
  const size = () => frame.current?.getBoundingClientRect() ?? {width: 800, height: 500, left: 0, top: 0};
  const fit = () => {
    const {width, height} = size();
    setView({x: -20, y: 0, zoom: Math.min(1.2, Math.max(ZOOM.least, Math.min(width / found.width, height / found.height)))});
  };
  useEffect(fit, [found]);
  /** Zoom around a point of the frame. @param {number} factor @param {number} [x] @param {number} [y] */
  const zoom = (factor, x = size().width / 2, y = size().height / 2) =>
    setView((/** @type {any} */ before) => {
      const next = Math.min(ZOOM.most, Math.max(ZOOM.least, before.zoom * factor));
      return {zoom: next, x: before.x + x / before.zoom - x / next, y: before.y + y / before.zoom - y / next};
    });
  useEffect(() => {
    const wheel = (/** @type {WheelEvent} */ event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const {left, top} = size();
      zoom(event.deltaY < 0 ? ZOOM.step : 1 / ZOOM.step, event.clientX - left, event.clientY - top);
    };
    const {current} = frame;
    current?.addEventListener('wheel', wheel, {passive: false});
    return () => current?.removeEventListener('wheel', wheel);
  }, []);
  const move = (/** @type {PointerEvent} */ event) => {
    const from = drag.current;
    if (from) setView({...from.view, x: from.view.x - (event.clientX - from.x) / from.view.zoom, y: from.view.y - (event.clientY - from.y) / from.view.zoom});
  };
  const {width, height} = size();
  const node = found.nodes.find(one => one.id === chosen);
  const drawn = useMemo( // a zoom or move changes none of them
    () => [
      ...found.lines.map(line => html`<path class="wire-line" d=${`M${line.x1} ${line.y1}C${line.x1} ${(line.y1 + line.y2) / 2} ${line.x2} ${(line.y1 + line.y2) / 2} ${line.x2} ${line.y2}`} />`),
      ...found.nodes.map(one => html`<${Node} key=${one.id} node=${one} chosen=${one.id === chosen} tone=${tones.get(one.kind === 'server' ? one.row.port.network_id : one.id) ?? 0} onChoose=${() => setChosen(one.id)} />`),
    ],
    [found, chosen],
  );
  return html`
    <div class="toolbar"><button type="button" class="small" onClick=${() => zoom(ZOOM.step)}>${t('Zoom in')}</button>
      <button type="button" class="small" onClick=${() => zoom(1 / ZOOM.step)}>${t('Zoom out')}</button>
      <button type="button" class="small" onClick=${fit}>${t('Fit')}</button>
      <span class="quiet">${t('Drag to move, Ctrl and the wheel to zoom')}</span></div>
    <div class="plan">
      <svg ref=${frame} class="plan-frame" role="group" aria-label=${t('Topology')} viewBox=${`${view.x} ${view.y} ${width / view.zoom} ${height / view.zoom}`}
          onPointerDown=${(/** @type {PointerEvent} */ event) => {
            drag.current = {x: event.clientX, y: event.clientY, view};
          }} onPointerMove=${move} onPointerUp=${() => (drag.current = null)} onPointerLeave=${() => (drag.current = null)}>
        ${drawn}
      </svg>
      ${node && html`<${Chosen} node=${node} />`}
    </div>`;
}

/** The same as a list. @param {{data: any}} props */
const List = ({data}) => html`
  <div class="topology">${data.networks.map(
    (/** @type {any} */ network, /** @type {number} */ place) => html`
    <section class="wire tone-${place % TONES}" key=${network.id}>
      <header><h2><a href=${link('networks', network.id)}>${network.name || network.id}</a></h2><span class="quiet mono">${network.nets.map((/** @type {any} */ one) => one.cidr).join(', ')}</span>
        ${data.routers
          .filter((/** @type {any} */ router) => router.gateway === network.id || router.joins.includes(network.id))
          .map((/** @type {any} */ router) => html`<a class="chip" href=${link('routers', router.id)}>${t('Router')} ${router.name}</a>`)}</header>
      <ul>${network.on.map(
        (/** @type {any} */ {port, server, floating}) => html`
        <li key=${port.id}><a href=${link('servers', server.id)}>${server.name}</a><${Badge} state=${server.status} />
          <span class="mono">${addresses(port)}</span>${floating && html`<a class="chip" href=${link('floating-ips', floating.id)}>${floating.floating_ip_address}</a>`}</li>`,
      )}
        ${!network.on.length && html`<li class="quiet">${t('No server of the project.')}</li>`}</ul>
    </section>`,
  )}</div>`;

/** @param {{query: URLSearchParams}} props */
export default function Topology({query}) {
  const loaded = useLoad(read, []);
  const shown = query.get('as') === 'list' ? 'list' : 'picture';
  return html`
    <${Head} title=${t('Topology')} />
    <${Tabs} chosen=${shown} href=${(/** @type {string} */ name) => `#/topology?as=${name}`} tabs=${[
      {name: 'picture', label: t('Picture')},
      {name: 'list', label: t('List')},
    ]} />
    <${Refusal} error=${loaded.error} />
    ${!loaded.data && loaded.loading && html`<${Busy} label=${t('Loading …')} />`}
    ${loaded.data && !loaded.data.networks.length && html`<${Empty} icon="network" text=${t('There are no networks.')} />`}
    ${loaded.data && loaded.data.networks.length > 0 && (shown === 'list' ? html`<${List} data=${loaded.data} />` : html`<${Picture} data=${loaded.data} />`)}`;
}
