// Links to the Grafana boards, where the daemon is configured with their address.

import { element } from "./dom.js";

const BOARDS = { fleet: "offsetwatch-fleet", connector: "offsetwatch-connector", flow: "offsetwatch-flow" };

export function boardUrl(base, board, variables = {}) {
  const query = new URLSearchParams(Object.entries(variables).map(([name, value]) => [`var-${name}`, value]));
  return `${base.replace(/\/+$/, "")}/d/${BOARDS[board]}${query.size ? `?${query}` : ""}`;
}

// The link of a row or a finding; none without an address.
export function boardLink(base, { connect_cluster, connector, source, target }) {
  if (!base || !connector) return [];
  const href = target === undefined ? boardUrl(base, "connector", { connect_cluster, connector }) : boardUrl(base, "flow", { connect_cluster, source, target });
  return [element("a", { href, rel: "noreferrer" }, "Board")];
}
