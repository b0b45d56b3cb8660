// Tables that become blocks, a row each, where they are wider than their place: nothing is cut off.

// region: the element that holds the table. Cells have their heading in data-head.
export function asBlocks(region, table) {
  let needed = 0; // pixels that the table took when it had too few
  const watch = new ResizeObserver(() => {
    const { scrollWidth, clientWidth } = region;
    if (!table.classList.contains("blocks") && scrollWidth > clientWidth) needed = scrollWidth;
    if (clientWidth) table.classList.toggle("blocks", clientWidth < needed);
  });
  watch.observe(region);
  watch.observe(table);
}
