// Numbers and times as people read them.

const UNITS = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]];

// "3d4h", "5m", as kubectl shows ages.
export function age(time, now = Date.now()) {
  const seconds = Math.floor((now - new Date(time).getTime()) / 1000);
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 0) return "0s";
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0s";
  const [unit, size] = UNITS[first];
  const count = Math.floor(seconds / size);
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return count < 10 && rest ? `${count}${unit}${rest}${next[0]}` : `${count}${unit}`;
}

export function bytes(count) {
  if (count < 1024) return `${count} B`;
  if (count < 1024 ** 2) return `${(count / 1024).toFixed(1)} KB`;
  if (count < 1024 ** 3) return `${(count / 1024 ** 2).toFixed(1)} MB`;
  return `${(count / 1024 ** 3).toFixed(1)} GB`;
}

export function seconds(value) {
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  return `${value.toFixed(1)} s`;
}

export function count(value) {
  return value.toLocaleString("en");
}
