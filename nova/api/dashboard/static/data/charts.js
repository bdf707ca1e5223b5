// The plots of the metrics page: what each line shows, of the samples that GET /os-metrics answers.

/**
 * @typedef {{name: string, labels: Record<string, string>, value: number}} Sample
 * @typedef {{label: string, names: string[], where?: (labels: Record<string, string>) => boolean, mean?: string[], now?: boolean}} Line
 * @typedef {{title: string, unit: 'second' | 'seconds' | 'bytes' | 'share' | 'count', lines: Line[]}} Chart
 *
 * names   the samples that are added up; counters are shown as how much more a second
 * where   which of them, by their labels
 * mean    the samples with how often: what is shown is the mean of what came since the last look
 * now     it is a gauge, and shown as it is
 */

const code = (/** @type {string} */ first) => (/** @type {Record<string, string>} */ labels) =>
  labels.status.startsWith(first);
const result = (/** @type {boolean} */ good) => (/** @type {Record<string, string>} */ labels) =>
  ['ok', 'success'].includes(labels.result) === good;

/** @type {Chart[]} */
export const CHARTS = [
  {
    title: 'Requests per second',
    unit: 'second',
    lines: [
      {label: 'Successful', names: ['nova_api_requests_total'], where: code('2')},
      {label: 'Refused', names: ['nova_api_requests_total'], where: code('4')},
      {label: 'Failed', names: ['nova_api_requests_total'], where: code('5')},
    ],
  },
  {
    title: 'Time of a request',
    unit: 'seconds',
    lines: [{label: 'Mean', names: ['nova_api_request_seconds_sum'], mean: ['nova_api_request_seconds_count']}],
  },
  {
    title: 'Servers placed per second',
    unit: 'second',
    lines: [
      {label: 'Placed', names: ['nova_placements_total']},
      {label: 'No host was found', names: ['nova_placements_refused_total']},
    ],
  },
  {
    title: 'Build time of servers',
    unit: 'seconds',
    lines: [{label: 'Mean', names: ['nova_server_build_seconds_sum'], mean: ['nova_server_build_seconds_count']}],
  },
  {
    title: 'Finished actions per second',
    unit: 'second',
    lines: [
      {label: 'Done', names: ['nova_actions_ended_total'], where: result(true)},
      {label: 'Failed', names: ['nova_actions_ended_total'], where: result(false)},
    ],
  },
  {
    title: 'Messages per second',
    unit: 'second',
    lines: [
      {label: 'Sent', names: ['nova_rpc_sent_total']},
      {label: 'Processed', names: ['nova_rpc_received_total']},
    ],
  },
  {
    title: 'Transactions per second',
    unit: 'second',
    lines: [
      {label: 'Reads', names: ['nova_db_transactions_total'], where: labels => labels.kind === 'read'},
      {label: 'Writes', names: ['nova_db_transactions_total'], where: labels => labels.kind === 'write'},
    ],
  },
  {
    title: 'Database connections',
    unit: 'count',
    lines: [
      {label: 'In use', names: ['nova_db_connections'], where: labels => labels.state === 'in_use', now: true},
      {label: 'Idle', names: ['nova_db_connections'], where: labels => labels.state === 'idle', now: true},
    ],
  },
  {
    title: 'In progress',
    unit: 'count',
    lines: [
      {label: 'Requests', names: ['nova_api_requests_in_progress'], now: true},
      {label: 'Messages', names: ['nova_rpc_in_progress'], now: true},
      {label: 'Tasks', names: ['nova_tasks_in_progress'], now: true},
      {label: 'Consoles', names: ['nova_console_sessions'], now: true},
    ],
  },
  {
    title: 'CPU usage',
    unit: 'share',
    lines: [{label: 'This process', names: ['process_cpu_seconds_total']}],
  },
  {
    title: 'Memory',
    unit: 'bytes',
    lines: [{label: 'This process', names: ['process_resident_memory_bytes'], now: true}],
  },
];

/**
 * What a line shows at a moment.
 * @param {Line} line
 * @param {Sample[]} now
 * @param {Sample[] | null} before  at the last look
 * @param {number} seconds  between the two
 * @returns {number | null}  null: nothing is known
 */
export function valueOf(line, now, before, seconds) {
  const total = (/** @type {Sample[]} */ samples, /** @type {string[]} */ names) =>
    samples
      .filter(sample => names.includes(sample.name) && (!line.where || line.where(sample.labels)))
      .reduce((sum, sample) => sum + sample.value, 0);
  if (line.now) return total(now, line.names);
  if (!before || seconds <= 0) return null;
  const more = total(now, line.names) - total(before, line.names);
  if (more < 0) return null; // the process was started again
  if (!line.mean) return more / seconds;
  const times = total(now, line.mean) - total(before, line.mean);
  return times > 0 ? more / times : null;
}
