-- uses: retracted
-- keys: told returned counts

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

local SLICES = 8192 -- as in state.py

-- Stores runs of a generator's sequence to be handed out again (picks.lua), unless those of `SLICES` picks are stored.
-- Answers whether all of them will be handed out.
local function keep_returned(number, g, runs)
  if #runs == 0 then
    return true
  end
  if redis.call('HLEN', returned) >= SLICES and redis.call('HEXISTS', returned, number) == 0 then
    return false
  end
  redis.call('HSET', returned, number, g .. ' ' .. text_of(runs))
  return true
end

-- Has no index handed out again that was told since. Answers whether there was one.
local function forget_returned(g)
  local slices, has_any = redis.call('HGETALL', returned), false
  for i = 1, #slices, 2 do
    local owner, text = slices[i + 1]:match('^(%d+) (.*)$')
    if owner == g then
      local runs, left = runs_in(text), {}
      for k = 1, #runs, 2 do
        local kept = untold(g, runs[k], runs[k + 1])
        for j = 1, #kept, 2 do
          add_run(left, kept[j], kept[j + 1])
        end
      end
      if text_of(left) ~= text then
        redis.call('HDEL', returned, slices[i])
        keep_returned(slices[i], g, left)
        has_any = true
      end
    end
  end
  return has_any
end
