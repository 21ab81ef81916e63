// Bytes of one tier over a step, one purpose on the other. What is beside the arena (libraries,
// data, the plan itself) is the same all the time and lies at the bottom.
const purposeColors = {weights: 'weights', states: 'states', gradients: 'gradients', activations: 'activations',
                       'key-value cache': 'cache', cache: 'cache', workspace: 'workspace', batch: 'batch'};
const purposeColor = name => purposeColors[name] || 'other';

function tierChart(parent, title, step, tier, top, end) {
  const readout = element('div', {class: 'readout'});
  const svg = shape('svg', {role: 'img'});
  parent.append(element('div', {class: 'chart'}, element('h3', {}, title), svg, readout));
  const times = tier.ticks.map(t => t * step.tick_seconds);
  const layers = [['beside the arena', 'beside', times.map(() => tier.beside)]];
  tier.purposes.forEach((p, i) => layers.push([p, purposeColor(p), tier.bytes[i]]));
  const sums = times.map((_, i) => layers.reduce((sum, layer) => sum + layer[2][i], 0));
  const peak = Math.max(...sums, 0), at = sums.indexOf(peak);
  const rest = () => { readout.textContent = `Most: ${bytes(peak)} at ${seconds(times[at] || 0)}, arena ${bytes(tier.arena)} + ${bytes(tier.beside)} beside it, limit ${bytes(tier.limit)}.`; };
  svg.setAttribute('aria-label', `${title}: at most ${bytes(peak)}; the table below has it by purpose`);
  let area = null;
  redrawn(svg, width => {
    svg.replaceChildren();
    area = frame(svg, width, Math.max(170, Math.min(240, width * .45)),
                 {x: [0, end], y: [0, top * 1.06], binary: true, xText: seconds, yText: bytes});
    const below = times.map(() => 0);
    for (const [, paint, values] of layers) {
      let up = `M${area.x(times[0]).toFixed(1)},${area.y(below[0]).toFixed(1)}`;
      const down = [];
      for (let i = 0; i < times.length; ++i) {
        const x0 = area.x(times[i]).toFixed(1), x1 = area.x(i + 1 < times.length ? times[i + 1] : step.seconds).toFixed(1);
        const upper = area.y(below[i] + values[i]).toFixed(1), lower = area.y(below[i]).toFixed(1);
        up += `L${x0},${upper}L${x1},${upper}`;
        down.push(`L${x1},${lower}L${x0},${lower}`);
      }
      svg.append(shape('path', {d: up + down.reverse().join('') + 'Z', fill: `var(--${paint})`}));
      for (let i = 0; i < times.length; ++i) below[i] += values[i];
    }
    if (tier.limit > 0 && tier.limit <= top * 1.06) {
      svg.append(shape('line', {x1: area.left, x2: area.right, y1: area.y(tier.limit), y2: area.y(tier.limit), stroke: 'var(--norm)', 'stroke-width': 1.5, 'stroke-dasharray': '5 3'}));
      svg.append(shape('text', {x: area.right - 4, y: area.y(tier.limit) + 12, 'text-anchor': 'end', 'font-size': 11, fill: 'var(--text)'}, 'limit'));
    }
    rest();
  });
  followPointer(svg, () => area, v => {
    const i = placeBefore(times, v);
    area.point(Math.min(v, step.seconds));
    readout.textContent = `${seconds(v)}: ${bytes(sums[i])} = ` + layers.filter(l => l[2][i] > 0).map(l => `${l[0]} ${bytes(l[2][i])}`).join(', ');
  }, () => { area.leave(); rest(); });
}

function drawMemory(parent, run) {
  const steps = [run.predicted, run.measured].filter(s => s);
  const names = [];
  for (const step of steps) for (const tier of step.memory) if (!names.includes(tier.tier)) names.push(tier.tier);
  const used = new Set();
  const charts = element('div', {});
  parent.append(charts);
  const end = Math.max(...steps.map(s => s.seconds));
  for (const name of names) {
    const found = steps.map(step => [step, step.memory.find(t => t.tier === name)])
                       .filter(([, t]) => t && t.ticks.length > 0 && (t.arena > 0 || t.bytes.length > 0));
    let top = 0;
    for (const [, tier] of found) {
      for (let i = 0; i < tier.ticks.length; ++i) top = Math.max(top, tier.beside + tier.bytes.reduce((sum, b) => sum + b[i], 0));
      tier.purposes.forEach(p => used.add(p));
    }
    if (top <= 0) continue;
    // A limit that is near is part of the picture.
    for (const [, tier] of found) if (tier.limit > 0 && tier.limit < top * 1.4) top = Math.max(top, tier.limit);
    const pair = element('div', {class: 'charts pair'});
    charts.append(pair);
    for (const [step, tier] of found) tierChart(pair, `${name[0].toUpperCase() + name.slice(1)}, ${step.kind}`, step, tier, top, end);
  }
  charts.before(legend([['beside the arena', 'beside'], ...[...used].map(p => [p, purposeColor(p)])]));
}
