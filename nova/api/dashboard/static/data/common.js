// Columns, fields and actions that many resources have.
import {html} from '../core/html.js';
import {openstack} from '../core/command.js';
import {required} from '../core/session.js';
import {short, t} from '../core/text.js';
import {Ago, Badge, Card, Empty} from '../parts/basics.js';
import {Named} from '../parts/named.js';
import {Table} from '../parts/table.js';

/** @typedef {import('../parts/actions.js').Action} Action */
/** @typedef {import('../parts/table.js').Column} Column */
/** @typedef {import('../core/api.js').Service} Service */

/** @type {Column} */
export const NAME = {name: 'name', label: 'Name', value: row => row.name || short(row.id)};
/** @type {Column} */
export const STATUS = {
  name: 'status',
  label: 'Status',
  value: row => row.status,
  show: row => html`<span><${Badge} state=${row.status} /></span>`,
};
/** @type {Column} */
export const CREATED = {
  name: 'created',
  label: 'Created',
  value: row => row.created_at,
  show: row => html`<${Ago} at=${row.created_at} />`,
};
/** @type {Column} */
export const SIZE = {name: 'size', label: 'Size', number: true, value: row => row.size, show: row => `${row.size} GiB`};
/** The volume of a backup, a snapshot or a transfer. @type {Column} */
export const VOLUME = {
  name: 'volume',
  label: 'Volume',
  value: row => row.volume_id,
  show: row => html`<${Named} kind="volume" id=${row.volume_id} />`,
};
/** The project of a thing, in lists that have those of all projects for administrators. @param {string} key @returns {Column} */
export const project = key => ({
  name: 'project',
  label: 'Project',
  admin: true,
  value: row => row[key],
  show: row => html`<${Named} kind="project" id=${row[key]} />`,
});
export const PROJECT = project('project_id');
/** The filter of administrators for the things of all projects. @param {string} query  of the API */
export const allProjects = query => ({name: 'all', label: 'All projects', admin: true, query});
/** @type {import('../parts/form.js').Field} */
export const NAME_FIELD = {name: 'name', label: 'Name', required: true};
/** @type {import('../parts/form.js').Field} */
export const DESCRIPTION = {name: 'description', label: 'Description'};

/** Whether the caller may change a thing that projects share: its project, or an administrator. @param {any} row */
export const mine = row => row.project_id === required().project?.id || required().roles.includes('admin');
/** @param {any} value */
export const yes = value => (value ? t('yes') : t('no'));
/** Lines of a text area. @param {string} text */
export const lines = text =>
  (text ?? '')
    .split(/\n/)
    .map(line => line.trim())
    .filter(Boolean);
/**
 * Lines of key=value, as {key: value}.
 * @param {string} text @returns {Record<string, string>}
 * @throws {Error} a line has no key or no sign of equality
 */
export const pairs = text =>
  Object.fromEntries(
    lines(text).map(line => {
      const at = line.indexOf('=');
      if (at < 1) throw new Error(t('The line "{line}" is not of the form key=value.', {line}));
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
/** Words separated by commas or spaces. @param {string} text */
export const words = text => (text ?? '').split(/[\s,]+/).filter(Boolean);
/** Values that a request has: those that are not empty. @param {Record<string, any>} values */
export const given = values =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== '' && value !== undefined && value !== null));
/**
 * Do several requests that are one for the user. After a failure, what was noted is undone, the last first.
 * @param {(undo: (step: () => Promise<any>) => void) => Promise<any>} work  it notes how to undo what it has done
 */
export async function undoing(work) {
  /** @type {(() => Promise<any>)[]} */
  const steps = [];
  try {
    return await work(step => steps.push(step));
  } catch (error) {
    for (const step of steps.reverse()) await step().catch(() => null);
    throw error;
  }
}

/**
 * Delete a thing of an API.
 * @param {Service} service @param {string} path @param {string} rule @param {string} words  of the command, as 'router delete'
 * @param {Partial<Action>} [more]
 * @returns {Action}
 */
export const remove = (service, path, rule, words, more) => ({
  name: 'delete',
  label: 'Delete',
  done: '{name} deleted',
  danger: true,
  bulk: true,
  gone: true,
  rule,
  request: row => ({service, method: 'DELETE', path: `${path}/${row.id}`}),
  command: row => openstack(words, row.id),
  ...more,
});

/**
 * Change the name and the description of a thing of the Networking API.
 * @param {string} one  its key @param {string} path @param {string} rule @param {string} words  of the command, as 'router set'
 * @param {Partial<Action>} [more]
 * @returns {Action}
 */
export const rename = (one, path, rule, words, more) => ({
  name: 'edit',
  label: 'Edit',
  done: '{name} changed',
  rule,
  form: row => [
    {...NAME_FIELD, required: false, value: row.name},
    {...DESCRIPTION, value: row.description},
  ],
  request: (row, values) => ({service: 'network', method: 'PUT', path: `${path}/${row.id}`, body: {[one]: values}}),
  command: (row, {name, description}) => openstack(words, ['--name', name], ['--description', description], row.id),
  ...more,
});

/**
 * A card with a table.
 * @param {{title: string, rows: any[], columns: Column[], actions?: Action[], choose: (action: Action, row: any, name?: string) => void,
 *   add?: any, icon?: string, nameOf?: (row: any) => string}} props
 */
export const Rows = ({title, rows, columns, actions = [], choose, add, icon = 'network', nameOf = row => row.name || row.id}) =>
  html`<${Card} title=${title} class="span" action=${add}>${
    rows.length
      ? html`<${Table} label=${title} ...${{rows, columns, actions}} idOf=${(/** @type {any} */ row) => row.id}
    nameOf=${nameOf} sort=${null} sortable=${() => false} onSort=${() => null} onAction=${(/** @type {any} */ action, /** @type {any[]} */ on) => choose(action, on[0], nameOf(on[0]))} selected=${new Set()} onSelect=${null} />`
      : html`<${Empty} icon=${icon} text=${t('There are none.')} />`
  }</${Card}>`;
