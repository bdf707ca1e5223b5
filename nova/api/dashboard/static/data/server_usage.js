// The charts of a server's usage: which series of GET /servers/{id}/os-metrics each of them shows.

/**
 * @typedef {{name: string, label: string}} Series
 * @typedef {{title: string, unit: string, lines: Series[], most?: (server: any) => number, share?: boolean}} Chart
 *
 * most   what the flavor gives, which the axis reaches
 * share  values are shown as a share of ``most``
 */

/** @type {Chart[]} */
export const CHARTS = [
  {title: 'CPU', unit: 'share', lines: [{name: 'cpu', label: 'Used'}], most: server => server.flavor?.vcpus || 1, share: true},
  {title: 'Memory', unit: 'bytes', lines: [{name: 'memory_bytes', label: 'Used'}], most: server => (server.flavor?.ram || 0) * 1048576},
  {
    title: 'Disk',
    unit: 'rate',
    lines: [
      {name: 'disk_read_bytes', label: 'Read'},
      {name: 'disk_write_bytes', label: 'Written'},
    ],
  },
  {
    title: 'Disk requests per second',
    unit: 'second',
    lines: [
      {name: 'disk_read_requests', label: 'Read'},
      {name: 'disk_write_requests', label: 'Written'},
    ],
  },
  {
    title: 'Network',
    unit: 'rate',
    lines: [
      {name: 'network_receive_bytes', label: 'Received'},
      {name: 'network_transmit_bytes', label: 'Sent'},
    ],
  },
  {
    title: 'Packets per second',
    unit: 'second',
    lines: [
      {name: 'network_receive_packets', label: 'Received'},
      {name: 'network_transmit_packets', label: 'Sent'},
    ],
  },
];

/** Periods by the seconds of a value. @type {{step: number, label: string}[]} */
export const PERIODS = [
  {step: 20, label: 'Hour'},
  {step: 120, label: 'Day'},
  {step: 900, label: 'Week'},
];
