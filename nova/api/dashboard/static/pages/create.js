// Creating servers: a form that says, while it is filled in, what would come of it.
import {html, useEffect, useMemo, useRef, useState} from '../core/html.js';
import {call, has} from '../core/api.js';
import {useLoad, useSettled} from '../core/load.js';
import {done} from '../core/notices.js';
import * as options from '../core/options.js';
import {go} from '../core/router.js';
import {isAdmin} from '../core/session.js';
import {mebibytes, number, t} from '../core/text.js';
import {GROUPS, body, command, hcl} from '../data/server_form.js';
import {Badge, Busy, Card, Command, Facts, Head, Meter, Refusal} from '../parts/basics.js';
import {Fields, initial} from '../parts/form.js';

const SETTLED_MS = 500;

/** @param {{query: URLSearchParams}} props */
export default function Create({query}) {
  const groups = useMemo(
    () =>
      GROUPS.filter(group => !group.service || has(group.service)).map(group => ({
        ...group,
        fields: group.fields.map(field => (field.name === 'image' ? {...field, value: query.get('image') ?? ''} : field)),
      })),
    [],
  );
  const [values, setValues] = useState(() => initial(groups.flatMap(group => group.fields)));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const left = useRef(false); // the answer to a form that was left changes no other page
  useEffect(
    () => () => {
      left.current = true;
    },
    [],
  );
  const sent = useRef({text: '', key: ''}); // an answer may be lost: the same request is sent again with the same key
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const document = body(values);
      const text = JSON.stringify(document);
      if (sent.current.text !== text) sent.current = {text, key: crypto.randomUUID?.() ?? String(Math.random())};
      const {server} = await call('compute', '/servers', {
        method: 'POST',
        body: document,
        headers: {'Idempotency-Key': sent.current.key},
      });
      sent.current = {text: '', key: ''};
      done(t('Server {name} is being created', {name: values.name}));
      if (!left.current) go(Number(values.count) > 1 ? '/servers' : `/servers/${server.id}/timeline`);
    } catch (why) {
      setError(/** @type {Error} */ (why));
    } finally {
      setBusy(false);
    }
  };
  return html`
    <${Head} title=${t('Create server')} back=${['#/servers', t('Servers')]} />
    <form class="create" onSubmit=${submit}>
      <div class="create-fields">${groups.map(
        group => html`
        ${
          group.folded
            ? html`<details class="card"><summary>${t(group.title)}</summary><${Fields} fields=${group.fields} values=${values} onChange=${setValues} /></details>`
            : html`<${Card} title=${t(group.title)}><${Fields} fields=${group.fields} values=${values} onChange=${setValues} /></${Card}>`
        }`,
      )}</div>
      <aside class="create-side"><${Check} values=${values} />
        <div class="card"><${Refusal} error=${error} /><${Command} command=${command(values)} terraform=${hcl(values)} />
          <button class="primary large" disabled=${busy}>${busy ? t('One moment …') : Number(values.count) > 1 ? t('Create {count} servers', {count: values.count}) : t('Create server')}</button></div></aside>
    </form>`;
}

/** What would come of it: the quota, and for administrators where it would be placed. @param {{values: any}} props */
function Check({values}) {
  const facts = useLoad(
    signal =>
      Promise.all([call('compute', '/limits', {signal}).then(found => found.limits.absolute), options.flavors()]),
    [],
  );
  const [limits, flavors] = facts.data ?? [];
  const flavor = flavors?.find(one => one.value === values.flavor)?.row;
  const count = Number(values.count) || 0;
  return html`<${Card} title=${t('Preview')}>
    <${Refusal} error=${facts.error} />
    ${
      !limits
        ? html`<${Busy} label=${t('Loading …')} />`
        : html`<div class="stack">
      <${Meter} label=${t('Servers')} used=${limits.totalInstancesUsed} more=${count} total=${limits.maxTotalInstances} show=${number} />
      <${Meter} label=${t('Virtual CPUs')} used=${limits.totalCoresUsed} more=${count * (flavor?.vcpus ?? 0)} total=${limits.maxTotalCores} show=${number} />
      <${Meter} label=${t('Memory')} used=${limits.totalRAMUsed} more=${count * (flavor?.ram ?? 0)} total=${limits.maxTotalRAMSize} show=${mebibytes} />
      ${isAdmin() && html`<${Placement} values=${values} />`}</div>`
    }
  </${Card}>`;
}

/** A dry run of its placement. @param {{values: any}} props */
function Placement({values}) {
  const asked = useSettled(JSON.stringify(body({...values, metadata: '', user_data: ''})), SETTLED_MS); // neither decides where it is placed
  const [state, setState] = useState(/** @type {any} */ ({}));
  useEffect(() => {
    const document = JSON.parse(asked);
    if (!document.server.flavorRef || !(document.server.imageRef || document.server.block_device_mapping_v2)) return;
    document.server.name ||= 'server';
    const control = new AbortController();
    call('compute', '/os-scheduler/explain', {
      method: 'POST',
      body: document,
      query: {limit: 5},
      signal: control.signal,
    }).then(
      found => setState({found: found.explanation}),
      error => {
        if (!control.signal.aborted) setState({error});
      },
    );
    return () => control.abort();
  }, [asked]);
  const {found, error} = state;
  if (error) return html`<${Refusal} error=${error} />`;
  if (!found) return null;
  return html`<div aria-live="polite"><h3>${t('Placement')}</h3>${
    found.choices.length
      ? html`<${Facts} rows=${[
          [t('Hosts that fit'), `${number(found.remaining)} / ${number(found.hosts)}`],
          [
            t('Selected hosts'),
            html`<span class="chips">${found.choices.slice(0, 6).map((/** @type {any} */ one) => html`<span class="chip">${one.host}</span>`)}</span>`,
          ],
        ]} />`
      : html`<p class="refusal"><${Badge} state="error" /> ${found.reason}</p>`
  }</div>`;
}
