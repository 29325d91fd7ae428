// Renders tiles; the first argument chooses what it meets.
const what = process.argv[2];
console.log('render: zoom 12');
if (what === 'grow') {
  const kept = [];
  for (let tile = 0; ; tile++) kept.push(new Array(1000).fill(tile));
}
if (what === 'undefined') {
  const tile = { layers: null };
  console.log(tile.layers.roads.length);
}
if (what === 'promise') Promise.reject(new Error('tile 12/2153/1391: connection refused by cache'));
