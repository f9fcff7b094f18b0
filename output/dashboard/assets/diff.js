// diff returns the lines by which two texts differ, with some context, as pairs of a
// sign and a line: the longest common subsequence after removing equal heads and tails.
// Each pair becomes an element, so lines beyond most are only counted, with sign '…'.
export function diff(from, to, context = 3, most = 2000) {
  const a = from.split('\n'), b = to.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
  const out = a.slice(Math.max(0, head - context), head).map((l) => [' ', l]);
  if (x.length * y.length > 4e6) { // too much to compare line by line
    for (const [sign, lines, which] of [['-', x, 'old'], ['+', y, 'new']]) {
      for (const l of lines.slice(0, most / 2)) out.push([sign, l]);
      leftOut(out, lines.length - most / 2, which);
    }
  } else {
    const wide = y.length + 1, best = new Uint32Array((x.length + 1) * wide); // [i, j] is at i * wide + j
    for (let i = x.length - 1; i >= 0; i--) {
      for (let j = y.length - 1; j >= 0; j--) {
        const at = i * wide + j;
        best[at] = x[i] === y[j] ? best[at + wide + 1] + 1 : Math.max(best[at + wide], best[at + 1]);
      }
    }
    let i = 0, j = 0;
    for (let n = 0; n < most && (i < x.length || j < y.length); n++) {
      if (i < x.length && j < y.length && x[i] === y[j]) { out.push([' ', x[i]]); i++; j++; }
      else if (i < x.length && (j === y.length || best[(i + 1) * wide + j] >= best[i * wide + j + 1])) out.push(['-', x[i++]]);
      else out.push(['+', y[j++]]);
    }
    leftOut(out, x.length - i, 'old');
    leftOut(out, y.length - j, 'new');
  }
  return out.concat(a.slice(a.length - tail, a.length - tail + context).map((l) => [' ', l]));
}

// leftOut adds the number of lines of a text that are not shown.
function leftOut(out, n, which) {
  if (n > 0) out.push(['…', ` ${n} more lines of the ${which} text`]);
}
