// One run at a time in what shows a single step.
function drawStep(id, draw) {
  const parent = document.getElementById(id);
  const runs = data.runs.map((run, i) => [run, runNames[i]]).filter(([run]) => run.predicted || run.measured);
  if (!parent || runs.length === 0) return;
  const place = element('div', {});
  if (runs.length > 1) {
    const choice = element('select', {'aria-label': 'Run'});
    runs.forEach(([, name], i) => choice.append(element('option', {value: i}, name)));
    choice.addEventListener('change', () => { place.replaceChildren(); draw(place, runs[choice.value][0]); });
    parent.append(element('div', {class: 'controls'}, element('label', {}, 'Run', choice)));
  }
  parent.append(place);
  draw(place, runs[0][0]);
}

if (document.getElementById('curves')) drawCurves(document.getElementById('curves'));
drawStep('memory', drawMemory);
drawStep('lanes', drawLanes);
document.documentElement.dataset.drawn = Math.round(performance.now());
