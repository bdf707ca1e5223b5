// The account of the user: password, second factor, files for clients, EC2 keys, language.
import {html, useState} from '../core/html.js';
import {call} from '../core/api.js';
import {openstack} from '../core/command.js';
import {useLoad} from '../core/load.js';
import {proved} from '../core/login.js';
import {forgetKey} from '../core/s3.js';
import {identityUrl, required} from '../core/session.js';
import {date, language, setLanguage, short, t} from '../core/text.js';
import {may} from '../core/permissions.js';
import {ActionDialog, ActionMenu, offered, save} from '../parts/actions.js';
import {Busy, Card, Copied, Empty, Facts, Head, Refusal} from '../parts/basics.js';
import {QrCode} from '../parts/qr.js';

/** @typedef {import('../parts/actions.js').Action} Action */

const LANGUAGES = [
  ['en', 'English'],
  ['de', 'Deutsch'],
];
const keys = () => `/users/${required().user.id}/credentials/OS-EC2`;

/** @type {Action} */
const changePassword = {
  name: 'password',
  label: 'Change password',
  done: 'Password changed. Log in again.',
  form: [
    {name: 'original', label: 'Current password', type: 'password', required: true},
    {name: 'password', label: 'New password', type: 'password', required: true},
    {name: 'again', label: 'New password again', type: 'password', required: true},
  ],
  perform: async (_row, {original, password, again}) => {
    if (password !== again) throw new Error(t('The two new passwords differ.'));
    try {
      // without a token: a wrong password is 401, which would end the session
      await call('identity', `/users/${required().user.id}/password`, {
        method: 'POST',
        token: '',
        body: {user: {original_password: original, password}},
      });
    } catch (why) {
      throw /** @type {any} */ (why).code === 401 ? new Error(t('The current password is wrong.')) : why;
    }
  },
  command: () => openstack('user password set'),
};
/** @type {Action} */
const createKey = {
  name: 'create-key',
  label: 'Create EC2 key',
  done: 'EC2 key created',
  rule: 'identity:ec2_create_credential',
  ask: 'Programs sign requests to the EC2 and S3 APIs with it, in the current project.',
  request: () => ({service: 'identity', method: 'POST', path: keys(), body: {tenant_id: required().project?.id}}),
  command: () => openstack('ec2 credentials create', ['--project', required().project?.id]),
  terraform: () => 'resource "openstack_identity_ec2_credential_v3" "key" {\n}',
  secret: answer => ({
    label: t('The key. It is also shown in the list.'),
    text: `AWS_ACCESS_KEY_ID=${answer.credential.access}\nAWS_SECRET_ACCESS_KEY=${answer.credential.secret}`,
    file: 'ec2.env',
  }),
};
/** @type {Action} */
const deleteKey = {
  name: 'delete',
  label: 'Delete',
  done: 'EC2 key deleted',
  rule: 'identity:ec2_delete_credential',
  danger: true,
  ask: 'Programs that sign with it are refused from now on.',
  perform: async row => {
    await call('identity', `${keys()}/${encodeURIComponent(row.access)}`, {method: 'DELETE'});
    forgetKey();
  },
  command: row => openstack('ec2 credentials delete', row.access),
};

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
/** 160 random bits, as RFC 4226 recommends. */
const newSecret = () => Array.from(crypto.getRandomValues(new Uint8Array(32)), byte => BASE32[byte & 31]).join('');
const ofDevice = (/** @type {string} */ secret) =>
  `otpauth://totp/${encodeURIComponent(`${location.hostname}:${required().user.name}`)}?secret=${secret}&issuer=${encodeURIComponent(location.hostname)}`;
/** The password and a code. */
const BOTH = {multi_factor_auth_enabled: true, multi_factor_auth_rules: [['password', 'totp']]};
/** @type {Action} */
const addDevice = {
  name: 'add-device',
  label: 'Add device',
  done: 'Device added',
  rule: 'identity:create_credential',
  ask: 'Read the QR code with the app of your device, or type the secret: TOTP, six digits, 30 seconds. Then type the code that it shows.',
  form: () => [
    {name: 'secret', label: 'Secret', required: true, value: newSecret(), pattern: '[A-Za-z2-7]{26,103}=*', below: value => html`<${QrCode} text=${ofDevice(value)} label=${t('The secret as a QR code')} /><${Copied} text=${ofDevice(value)} />`},
    {name: 'code', label: 'Code', required: true, pattern: '[0-9]{6}'},
  ],
  perform: async (_row, {secret, code}) => {
    const {user} = required();
    const {credential} = await call('identity', '/credentials', {
      method: 'POST',
      body: {credential: {type: 'totp', user_id: user.id, blob: secret}},
    });
    try {
      if (!(await proved(user.id, code))) throw new Error(t('The code is wrong or has expired. Check the clock of the device.'));
      if (may('identity:update_user'))
        await call('identity', `/users/${user.id}`, {method: 'PATCH', body: {user: {options: BOTH}}});
    } catch (why) {
      await call('identity', `/credentials/${credential.id}`, {method: 'DELETE'});
      throw why;
    }
  },
  command: (_row, {secret}) =>
    openstack('credential create --type totp', required().user.id, secret) +
    (may('identity:update_user')
      ? '\n' + openstack('user set --enable-multi-factor-auth --multi-factor-auth-rule password,totp', required().user.id)
      : ''),
};
/** @type {Action} */
const removeDevice = {
  name: 'remove-device',
  label: 'Remove device',
  done: 'Device removed',
  rule: 'identity:delete_credential',
  danger: true,
  ask: 'Without a device you cannot log in while a second factor is required.',
  request: row => ({service: 'identity', method: 'DELETE', path: `/credentials/${row.id}`}),
  command: row => openstack('credential delete', row.id),
};

/** The login of clients, without the password. */
function login() {
  const {user, project, region} = required();
  return {
    auth_url: new URL(identityUrl(), location.href).href,
    username: user.name,
    user_domain_name: user.domain.name,
    project_name: project?.name ?? '',
    project_domain_name: project?.domain.name ?? '',
    region_name: region,
  };
}
const yaml = (/** @type {string} */ text) => JSON.stringify(text);
/** The file clouds.yaml. */
function cloudsYaml() {
  const {region_name: region, ...auth} = login();
  return `clouds:
  ${yaml(auth.project_name || 'cloud')}:
    auth:
${Object.entries(auth)
  .map(([key, value]) => `      ${key}: ${yaml(value)}`)
  .join('\n')}
    region_name: ${yaml(region)}
    identity_api_version: 3
`;
}
const shell = (/** @type {string} */ text) => `'${text.replaceAll("'", "'\\''")}'`;
/** The file openrc.sh, which asks for the password. */
const openrc = () =>
  `${Object.entries(login())
    .map(([key, value]) => `export OS_${key.toUpperCase()}=${shell(value)}`)
    .join('\n')}
export OS_IDENTITY_API_VERSION=3
printf 'Password of %s: ' "$OS_USERNAME"
read -rs OS_PASSWORD
export OS_PASSWORD
`;

export default function Account() {
  const {user, project, roles, expires} = required();
  const [doing, setDoing] = useState(/** @type {any} */ (null));
  const loaded = useLoad(signal => call('identity', keys(), {signal}).then(found => found.credentials), []);
  const devices = useLoad(
    async signal => {
      const [{credentials}, {user: me}] = await Promise.all([
        call('identity', '/credentials', {signal, query: {user_id: user.id, type: 'totp'}}),
        call('identity', `/users/${user.id}`, {signal}),
      ]);
      return {credentials, needed: !!me.options?.multi_factor_auth_enabled};
    },
    [],
  );
  const button = (/** @type {Action} */ action) =>
    offered(action) &&
    html`<button type="button" class="small" onClick=${() => setDoing({action, rows: [{}]})}>${t(action.label)}</button>`;
  const file = (/** @type {string} */ name, /** @type {() => string} */ text) =>
    html`<button type="button" class="small" onClick=${() => save(new Blob([text()], {type: 'text/plain'}), name)}>${name}</button>`;
  return html`
    <${Head} title=${t('Account')} />
    <div class="grid">
      <${Card} title=${t('User')} action=${!('OS-FEDERATION' in user) && button(changePassword)}><${Facts} rows=${[
        [t('Name'), user.name],
        [t('Id'), html`<span class="mono">${user.id}</span>`],
        [t('Domain'), user.domain.name],
        [t('Project'), project?.name],
        [t('Roles'), roles.join(', ')],
        [t('The session ends'), date(expires)],
      ]} /></${Card}>
      <${Card} title=${t('Second factor')} action=${button(addDevice)}><${Refusal} error=${devices.error} />${
        !devices.data
          ? !devices.error && html`<${Busy} label=${t('Loading …')} />`
          : html`<div class="stack"><p class="quiet">${
              devices.data.needed
                ? t('A login needs the password and a code.')
                : devices.data.credentials.length
                  ? t('No second factor is required: a code replaces the password. Ask an administrator to require both.')
                  : t('A login needs the password only.')
            }</p>${
              devices.data.credentials.length > 0 &&
              html`<ul class="brief keys">${devices.data.credentials.map(
                (/** @type {any} */ row) => html`<li key=${row.id}><span class="mono">${short(row.id)}</span><${ActionMenu} label=${t('Actions of {name}', {name: short(row.id)})} actions=${[removeDevice].filter(offered)} onChoose=${(/** @type {Action} */ action) => setDoing({action, rows: [row]})} /></li>`,
              )}</ul>`
            }</div>`
      }</${Card}>
      <${Card} title=${t('Files for clients')}><div class="stack"><p class="quiet">${t('The files have no password. The client asks for it.')}</p>
        <div class="chips">${file('clouds.yaml', cloudsYaml)}${file('openrc.sh', openrc)}</div>
        <p><a href="#/credentials">${t('Application credentials')}</a></p></div></${Card}>
      <${Card} title=${t('EC2 keys')} action=${button(createKey)}><${Refusal} error=${loaded.error} />${
        !loaded.data
          ? !loaded.error && html`<${Busy} label=${t('Loading …')} />`
          : loaded.data.length
            ? html`<ul class="brief keys">${loaded.data.map(
                (/** @type {any} */ row) => html`<li key=${row.access}><${Copied} text=${`${row.access} ${row.secret}`} /><${ActionMenu} label=${t('Actions of {name}', {name: row.access})} actions=${[deleteKey].filter(offered)} onChoose=${(/** @type {Action} */ action) => setDoing({action, rows: [row]})} /></li>`,
              )}</ul>`
            : html`<${Empty} icon="key" text=${t('There are none.')} />`
      }</${Card}>
      <${Card} title=${t('Language')}><label class="inline">${t('Language')} <select value=${language()} onChange=${(/** @type {any} */ event) => setLanguage(event.target.value)}>${LANGUAGES.map(([value, name]) => html`<option value=${value} selected=${value === language()}>${name}</option>`)}</select></label></${Card}>
    </div>
    ${doing && html`<${ActionDialog} ...${doing} nameOf=${(/** @type {any} */ row) => row.access ?? ''} onClose=${() => setDoing(null)} onDone=${() => {
      loaded.reload();
      devices.reload();
    }} />`}`;
}
