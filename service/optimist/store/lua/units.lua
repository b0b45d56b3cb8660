-- keys: counts watched_counts

-- Each generator is scored by each metric: a unit, written "<g>" for the primary metric, whose label is '', and
-- "<g>:<label>" for a watched one. Small facts of a unit, such as the name of its newest estimate, are in `counts` for
-- the primary metric and in `watched_counts` for watched ones: picks are made from `counts`, which must not grow with these.

local function unit_of(g, label)
  return label == '' and tostring(g) or g .. ':' .. label
end

local function facts_of(label)
  return label == '' and counts or watched_counts
end

-- A name that differs between metrics: of a key, or of a fact that all generators share.
local function by_label(name, label)
  return label == '' and name or name .. ':' .. label
end

-- The labels of all metrics, that of the primary one first.
local function all_labels()
  local found = {''}
  for label in (redis.call('HGET', counts, 'labels') or ''):gmatch('%S+') do
    found[#found + 1] = label
  end
  return found
end

-- The log position of the snapshot in an entry of `snapshots`; 0 without one.
local function position_of(entry)
  return tonumber(entry and entry:match('^%S+ %d+ (%d+)') or 0)
end
