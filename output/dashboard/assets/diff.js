// The lines by which two texts differ, with what surrounds them: longest common
// subsequence, after equal heads and tails are set aside.
export function diff(from, to, context = 3) {
  const a = from.split('\n'), b = to.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
  const out = a.slice(Math.max(0, head - context), head).map((l) => [' ', l]);
  if (x.length * y.length > 4e6) { // too much to compare line by line
    out.push(...x.map((l) => ['-', l]), ...y.map((l) => ['+', l]));
  } else {
    const best = Array.from({ length: x.length + 1 }, () => new Uint32Array(y.length + 1));
    for (let i = x.length - 1; i >= 0; i--) {
      for (let j = y.length - 1; j >= 0; j--) {
        best[i][j] = x[i] === y[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
      }
    }
    let i = 0, j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) { out.push([' ', x[i]]); i++; j++; }
      else if (i < x.length && (j === y.length || best[i + 1][j] >= best[i][j + 1])) out.push(['-', x[i++]]);
      else out.push(['+', y[j++]]);
    }
  }
  return out.concat(a.slice(a.length - tail, a.length - tail + context).map((l) => [' ', l]));
}
