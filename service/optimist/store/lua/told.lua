-- uses: retracted
-- keys: told returned counts generators

-- The indices of a generator's sequence that its batches were told with: `told:<g>` is a sorted set of disjoint
-- intervals "<start> <stop>", scored by `stop`; intervals that touch are one. No index counts twice. A generator with
-- `<g>:seedless` in `counts` ignores seeds: its batches have no indices.

-- Runs are lists of whole numbers: the first and the length of each, one after the other, ascending. As text they have
-- spaces between.

local function whole(number)
  return string.format('%.0f', number)
end

local function text_of(runs)
  local parts = {}
  for i, number in ipairs(runs) do
    parts[i] = whole(number)
  end
  return table.concat(parts, ' ')
end

local function runs_in(text)
  local runs = {}
  for number in text:gmatch('%d+') do
    runs[#runs + 1] = tonumber(number)
  end
  return runs
end

-- Adds a run behind those of a list, as a part of the last one where they touch.
local function add_run(runs, start, size)
  if #runs > 0 and runs[#runs - 1] + runs[#runs] == start then
    runs[#runs] = runs[#runs] + size
  elseif size > 0 then
    runs[#runs + 1], runs[#runs + 2] = start, size
  end
end

-- At most `most` told intervals that end at `from` or later, in order, as {start, stop, member}.
local function told_from(g, from, most)
  local found = redis.call('ZRANGEBYSCORE', told .. ':' .. g, whole(from), '+inf', 'LIMIT', 0, most)
  for i, member in ipairs(found) do
    local start, stop = member:match('^(%d+) (%d+)$')
    found[i] = {start = tonumber(start), stop = tonumber(stop), member = member}
  end
  return found
end

-- The runs of `size` indices from `start` on that were not told.
local function untold(g, start, size)
  local runs, at, stop = {}, start, start + size
  for _, one in ipairs(size > 0 and told_from(g, start + 1, size) or {}) do
    if one.start < stop then
      add_run(runs, at, math.max(0, one.start - at))
      at = math.max(at, one.stop)
    end
  end
  add_run(runs, at, math.max(0, stop - at))
  return runs
end

-- Notes indices as told, none of which was.
local function mark_told(g, start, size)
  local stop = start + size
  for _, one in ipairs(told_from(g, start, 2)) do
    if one.stop == start or one.start == stop then
      redis.call('ZREM', told .. ':' .. g, one.member)
      start, stop = math.min(start, one.start), math.max(stop, one.stop)
    end
  end
  redis.call('ZADD', told .. ':' .. g, whole(stop), whole(start) .. ' ' .. whole(stop))
end

-- Takes indices back, all of which were told in one batch.
local function unmark_told(g, start, size)
  local one, stop = told_from(g, start + 1, 1)[1], start + size
  redis.call('ZREM', told .. ':' .. g, one.member)
  if one.start < start then
    redis.call('ZADD', told .. ':' .. g, whole(start), whole(one.start) .. ' ' .. whole(start))
  end
  if stop < one.stop then
    redis.call('ZADD', told .. ':' .. g, whole(one.stop), whole(stop) .. ' ' .. whole(one.stop))
  end
end

local function is_seedless(g)
  return redis.call('HEXISTS', counts, g .. ':seedless') == 1
end

-- Which rows of a batch count. `slice`: "<start> <size>", the indices that its first rows were made for, '' for none.
-- Answers {rows, uncounted: how many do, and do not; indices: runs of those that do; counted: runs of the rows of the
-- batch that do, nil for all}. Rows beyond the slice have no index, and count.
local function part_of(g, slice, rows)
  local start, size = slice:match('^(%d+) (%d+)')
  rows = tonumber(rows)
  if not start or is_seedless(g) then
    return {rows = rows, uncounted = 0, indices = {}}
  end
  start, size = tonumber(start), math.min(size, rows)
  local indices, counted, count = untold(g, start, size), {}, 0
  for i = 1, #indices, 2 do
    add_run(counted, indices[i] - start, indices[i + 1])
    count = count + indices[i + 1]
  end
  add_run(counted, size, rows - size)
  count = count + rows - size
  return {rows = count, uncounted = rows - count, indices = indices, counted = count < rows and counted or nil}
end

-- The answer for a batch none of whose rows count: that of a repeat.
local function uncounted_answer(g, number, rows, late)
  local samples, batches = unpack(redis.call('HMGET', counts, g .. ':samples', g .. ':batches'))
  return answer_of(number, g, 0, samples, batches, 0, late, rows, '')
end

-- `returned` holds, by generator, the runs of its sequence that other picks take, the first one first: indices of picks
-- that ended without samples for them. Runs do not touch.

local SLICES, FEWEST = 512, 8 -- as in state.py

local function returned_by(g)
  return runs_in(redis.call('HGET', returned, g) or '')
end

-- Stores these runs of a generator instead of what it has. As every step that looks at them takes longer the more there
-- are, it has at most its share of `SLICES`; the last ones beyond that are never handed out.
local function put_returned(g, runs)
  local limit = math.max(FEWEST, math.floor(SLICES / redis.call('HLEN', generators)))
  for i = #runs, 2 * limit + 1, -1 do
    runs[i] = nil
  end
  if #runs == 0 then
    redis.call('HDEL', returned, g)
  else
    redis.call('HSET', returned, g, text_of(runs))
  end
end

-- The indices of both lists.
local function joined(runs, others)
  local both, i, k = {}, 1, 1
  while runs[i] or others[k] do
    local start, size
    if not others[k] or runs[i] and runs[i] <= others[k] then
      start, size, i = runs[i], runs[i + 1], i + 2
    else
      start, size, k = others[k], others[k + 1], k + 2
    end
    local last = #both
    if last > 0 and both[last - 1] + both[last] >= start then
      both[last] = math.max(both[last], start + size - both[last - 1])
    else
      both[last + 1], both[last + 2] = start, size
    end
  end
  return both
end

-- Has these indices of a generator handed out again.
local function keep_returned(g, runs)
  if #runs > 0 then
    put_returned(g, joined(returned_by(g), runs))
  end
end

-- Has none of these indices handed out again, which were told just now. Answers whether there was one.
local function forget_returned(g, indices)
  local runs, left, k, has_any = returned_by(g), {}, 1, false
  for i = 1, #runs, 2 do
    local at, stop = runs[i], runs[i] + runs[i + 1]
    while indices[k] and indices[k] + indices[k + 1] <= at do
      k = k + 2
    end
    local j = k -- the last of them may reach into the next run
    while indices[j] and indices[j] < stop do
      add_run(left, at, math.max(0, indices[j] - at))
      at, j, has_any = indices[j] + indices[j + 1], j + 2, true
    end
    add_run(left, at, math.max(0, stop - at))
  end
  if has_any then
    put_returned(g, left)
  end
  return has_any
end
