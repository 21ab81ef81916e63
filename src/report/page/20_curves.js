// The frame that curves and memory share: axes, a grid, and a line under the pointer. `of` has
// x: [low, high], y: [low, high], log, binary (bytes, from 0), xText, yText; the returned object maps values to pixels.
function frame(svg, width, height, of) {
  const left = 58, right = 10, top = 8, bottom = 24;
  const [x0, x1] = of.x, [y0, y1] = of.y;
  const toY = of.log ? Math.log10 : v => v;
  const x = v => left + (v - x0) / ((x1 - x0) || 1) * (width - left - right);
  const y = v => height - bottom - (toY(v) - toY(y0)) / ((toY(y1) - toY(y0)) || 1) * (height - top - bottom);
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('height', height);
  const line = 'var(--line)', soft = 'var(--soft)';
  const rows = of.log ? logTicks(y0, y1) : of.binary ? binaryTicks(y1, 4) : ticks(y0, y1, 4);
  for (const v of rows) {
    svg.append(shape('line', {x1: left, x2: width - right, y1: y(v), y2: y(v), stroke: line}));
    svg.append(shape('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end', 'font-size': 11, fill: soft}, of.yText(v)));
  }
  for (const v of ticks(x0, x1, Math.max(2, Math.min(8, width / 110)))) {
    const at = x(v), anchor = at > width - 30 ? 'end' : at < left + 8 ? 'start' : 'middle';
    svg.append(shape('line', {x1: at, x2: at, y1: height - bottom, y2: height - bottom + 4, stroke: soft}));
    svg.append(shape('text', {x: at, y: height - 6, 'text-anchor': anchor, 'font-size': 11, fill: soft}, of.xText(v)));
  }
  svg.append(shape('line', {x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, stroke: soft}));
  const cursor = shape('line', {y1: top, y2: height - bottom, stroke: 'var(--text)', 'stroke-opacity': .5, visibility: 'hidden'});
  svg.append(cursor);
  return {
    x, y, left, right: width - right, top, bottom: height - bottom,
    value: px => x0 + Math.min(1, Math.max(0, (px - left) / (width - left - right))) * (x1 - x0),
    point: v => { cursor.setAttribute('visibility', 'visible'); cursor.setAttribute('x1', x(v)); cursor.setAttribute('x2', x(v)); },
    leave: () => cursor.setAttribute('visibility', 'hidden')
  };
}

function followPointer(svg, box, enter, leave) {
  svg.addEventListener('pointermove', event => {
    const rect = svg.getBoundingClientRect();
    enter(box().value((event.clientX - rect.left) / rect.width * svg.viewBox.baseVal.width));
  });
  svg.addEventListener('pointerleave', leave);
}

// Curves of all runs in one chart. A series has name, paint, x, mean, least, most, dashed; the band
// between least and most is what its points were joined from.
function curveChart(parent, title, seriesOf, options) {
  const readout = element('div', {class: 'readout'});
  const svg = shape('svg', {role: 'img'});
  const box = element('div', {class: 'chart'}, element('h3', {}, title), svg, readout);
  parent.append(box);
  let shown = [], area = null;
  const rest = () => {
    readout.textContent = shown.map(s => `${s.name}: ${options.text(s.mean[s.mean.length - 1])} at the end`).join(' · ');
  };
  const draw = width => {
    svg.replaceChildren();
    shown = seriesOf().filter(s => s.x.length > 0);
    if (view.log && options.log) shown = shown.filter(s => s.mean.some(v => v > 0));
    const log = view.log && options.log && shown.length > 0;
    let low = Infinity, high = -Infinity, x0 = Infinity, x1 = -Infinity;
    for (const s of shown) {
      for (let i = 0; i < s.x.length; ++i) {
        if (log && !(s.least[i] > 0)) continue;
        low = Math.min(low, s.least[i]); high = Math.max(high, s.most[i]);
      }
      x0 = Math.min(x0, s.x[0]); x1 = Math.max(x1, s.x[s.x.length - 1]);
    }
    if (low > high) { readout.textContent = 'No values.'; return; }
    if (options.zero && !log) { low = Math.min(0, low); high = high > 0 ? high * 1.05 : 1; }
    else if (!log) { const pad = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1; low -= pad; high += pad; }
    else { low /= 1.05; high *= 1.05; }
    if (x0 === x1) { x0 -= .5; x1 += .5; }
    svg.setAttribute('aria-label', `${title}: ` + shown.map(s => `${s.name} from ${options.text(s.mean[0])} to ${options.text(s.mean[s.mean.length - 1])}`).join(', '));
    area = frame(svg, width, Math.max(170, Math.min(260, width * .5)),
                 {x: [x0, x1], y: [low, high], log, xText: view.time ? seconds : number, yText: options.text});
    const inside = v => log ? Math.max(v, low) : v;
    for (const s of shown) {
      const paint = `var(--${s.paint})`;
      if (s.least !== s.mean && s.x.length > 1) {
        let band = 'M';
        for (let i = 0; i < s.x.length; ++i) band += `${area.x(s.x[i]).toFixed(1)},${area.y(inside(s.most[i])).toFixed(1)} `;
        for (let i = s.x.length; i-- > 0;) band += `${area.x(s.x[i]).toFixed(1)},${area.y(inside(s.least[i])).toFixed(1)} `;
        svg.append(shape('path', {d: band + 'Z', fill: paint, 'fill-opacity': .22, stroke: paint, 'stroke-opacity': .45, 'stroke-width': .8}));
      }
      const points = s.x.map((x, i) => `${area.x(x).toFixed(1)},${area.y(inside(s.mean[i])).toFixed(1)}`);
      svg.append(shape('polyline', {points: points.join(' '), fill: 'none', stroke: paint, 'stroke-width': 1.7,
                                    'stroke-linejoin': 'round', 'stroke-dasharray': s.dashed ? '6 4' : 'none'}));
      if (s.x.length < 25) {
        for (let i = 0; i < s.x.length; ++i) svg.append(shape('circle', {cx: area.x(s.x[i]), cy: area.y(inside(s.mean[i])), r: 2.6, fill: paint}));
      }
    }
    rest();
  };
  followPointer(svg, () => area, v => {
    if (!shown.length || !area) return;
    const texts = [];
    let at = v;
    for (const s of shown) {
      const i = nearest(s.x, v);
      if (texts.length === 0) at = s.x[i];
      const range = s.least !== s.mean && s.least[i] !== s.most[i] ? ` (${options.text(s.least[i])} to ${options.text(s.most[i])})` : '';
      texts.push(`${s.name} ${options.text(s.mean[i])}${range}`);
    }
    area.point(at);
    readout.textContent = (view.time ? seconds(at) : 'step ' + number(at)) + ': ' + texts.join(' · ');
  }, () => { if (area) { area.leave(); rest(); } });
  return redrawn(svg, draw);
}

const view = {time: false, log: false};

function curveOf(run, i, curve, name, dashed) {
  return {name, paint: runColor(i), x: view.time ? curve.seconds : curve.step, mean: curve.mean,
          least: curve.least || curve.mean, most: curve.most || curve.mean, dashed};
}

function drawCurves(parent) {
  const charts = element('div', {class: 'charts'});
  const redraws = [];
  const switched = (label, key, value, words) => {
    const button = element('button', {type: 'button', 'aria-pressed': 'false'}, label);
    button.title = words;
    button.addEventListener('click', () => {
      view[key] = !view[key];
      button.setAttribute('aria-pressed', view[key]);
      redraws.forEach(r => r());
    });
    return button;
  };
  parent.append(element('div', {class: 'controls'}, switched('Over time', 'time', true, 'Over seconds instead of steps'),
                        switched('Logarithmic', 'log', true, 'Loss, gradient norm and learning rate on a logarithmic axis')));
  if (data.runs.length > 1) parent.append(legend(runNames.map((name, i) => [name, runColor(i)])));
  parent.append(charts);
  const of = (key, dashedKey) => () => data.runs.flatMap((run, i) => {
    const all = [];
    if (run.curves[key]) all.push(curveOf(run, i, run.curves[key], runNames[i], false));
    const rate = key === 'tokens_per_second' && run.predicted_rate, steps = run.curves[key];
    if (rate > 0 && steps) {
      const ends = (view.time ? steps.seconds : steps.step).filter((_, place, all) => place === 0 || place === all.length - 1);
      const flat = ends.map(() => rate);
      all.push({name: runNames[i] + ', predicted', paint: runColor(i), x: ends, mean: flat, least: flat, most: flat, dashed: true});
    }
    if (dashedKey && run.curves[dashedKey]) all.push(curveOf(run, i, run.curves[dashedKey], runNames[i] + ', validation', true));
    return all;
  });
  const has = key => data.runs.some(run => run.curves[key] && run.curves[key].step.length > 0);
  const add = (title, key, options, dashedKey) => { if (has(key) || has(dashedKey)) redraws.push(curveChart(charts, title, of(key, dashedKey), options)); };
  add(has('validation_loss') ? 'Loss (validation dashed)' : 'Loss', 'loss', {text: number, log: true}, 'validation_loss');
  add('Gradient norm, before clipping', 'norm', {text: number, log: true});
  add('Learning rate', 'learning_rate', {text: number, log: true, zero: true});
  add('Tokens/s (predicted dashed)', 'tokens_per_second', {text: number, zero: true});
  add('Utilization', 'utilization', {text: percent, zero: true});
}
