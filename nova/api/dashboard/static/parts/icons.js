// The icons: paths in a square of 24, drawn with the colour of the text around them.
import {html} from '../core/html.js';

/** @type {Record<string, string>} */
const PATHS = {
  overview: 'M4 13h6V4H4zM14 20h6v-9h-6zM14 4v3h6V4zM4 20h6v-3H4z',
  server: 'M4 5h16v6H4zM4 13h16v6H4zM7.5 8h.01M7.5 16h.01M11 8h6M11 16h6',
  image: 'M12 3l9 5-9 5-9-5zM3 12l9 5 9-5M3 16l9 5 9-5',
  key: 'M7.500 20.500a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM10.500 13.500 20 4M15.500 8.500l3 3',
  network: 'M12 8V4M12 8a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM9.500 13 5 18M14.500 13l4.500 5M10 3h4M3 20h4M17 20h4',
  shield: 'M12 3l8 3v6c0 4.500-3.400 7.800-8 9-4.600-1.200-8-4.500-8-9V6z',
  volume:
    'M4 6c0-1.700 3.600-3 8-3s8 1.300 8 3-3.600 3-8 3-8-1.300-8-3zM4 6v12c0 1.700 3.600 3 8 3s8-1.300 8-3V6M4 12c0 1.700 3.600 3 8 3s8-1.300 8-3',
  group: 'M3 3h8v8H3zM13 3h8v8h-8zM3 13h8v8H3zM13 13h8v8h-8z',
  tag: 'M3 12V3h9l9 9-9 9zM7.500 7.500h.01',
  usage: 'M4 20V10M10 20V4M16 20v-7M21 20H3',
  hosts: 'M3 4h18v5H3zM3 10.500h18v5H3zM6 6.500h.01M6 13h.01M8 20h8M12 15.500V20',
  flavor: 'M12 3v18M5 8l7-5 7 5v8l-7 5-7-5zM5 8l7 5 7-5',
  heart: 'M3 12h4l3-7 4 14 3-7h4',
  move: 'M4 8h13l-4-4M20 16H7l4 4',
  people:
    'M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM2.500 20c0-3.500 2.900-6 6.500-6s6.500 2.500 6.500 6M16 4.300a3.500 3.500 0 0 1 0 6.400M18 14.500c2.200.800 3.500 2.800 3.500 5.500',
  audit: 'M6 3h9l4 4v14H6zM14 3v5h5M9 12h7M9 16h7',
  search: 'M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13zM15.500 15.500 21 21',
  plus: 'M12 5v14M5 12h14',
  close: 'M6 6l12 12M18 6 6 18',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  menu: 'M4 7h16M4 12h16M4 17h16',
  down: 'M6 9l6 6 6-6',
  reload: 'M20 11a8 8 0 1 0-1.500 5.500M20 4v7h-7',
  out: 'M14 4h5v16h-5M4 12h11M11 8l4 4-4 4',
  play: 'M7 4l13 8-13 8z',
  stop: 'M6 6h12v12H6z',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.400 1.400M17.600 17.600 19 19M19 5l-1.400 1.400M6.400 17.600 5 19',
  console: 'M3 4h18v16H3zM7 9l3 3-3 3M13 15h4',
  question:
    'M9 9a3 3 0 1 1 4.200 2.700c-.800.400-1.200 1-1.200 2.300M12 17.500h.01M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z',
};

/** An icon, which says nothing to screen readers: text beside it does. @param {{name: string, size?: number}} props */
export const Icon = ({name, size = 18}) => html`
  <svg class="icon" width=${size} height=${size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d=${PATHS[name] ?? PATHS.more} />
  </svg>`;
