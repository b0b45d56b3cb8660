-- keys: levels

-- `levels:<g>` is a sorted set of the levels of a generator's batches (anomalies/levels.py):
--   member "<place of the array> <position> <pick> <rows> <time> <worker, if named>", score <level> + SPAN · <place of the array>

local KEPT, EXTREMES, SPAN = 256, 64, 10000 -- the first two as in anomalies.py, the last one as in levels.py
local NOTABLE = math.log(3) -- the least difference that can be anomalous, as in anomalies.py

-- Keeps the level of a batch in one array. Answers whether it might be anomalous, which the caller then finds out.
local function keep_level(g, seq, place, level, origin)
  local key, offset = levels .. ':' .. g, place * SPAN
  redis.call('ZADD', key, string.format('%.4f', offset + level), place .. ' ' .. seq .. ' ' .. origin)
  local before = redis.call('ZCOUNT', key, '-inf', '(' .. (offset - SPAN / 2))
  local count = redis.call('ZCOUNT', key, offset - SPAN / 2, '(' .. (offset + SPAN / 2))
  if count > KEPT then
    local rank = before + EXTREMES + seq % 65536 * 40503 % 65536 % (count - 2 * EXTREMES)
    redis.call('ZREMRANGEBYRANK', key, rank, rank)
    count = KEPT
  end
  local middle = before + math.floor(count / 2)
  local typical = redis.call('ZRANGE', key, middle, middle, 'WITHSCORES')[2]
  return count <= 2 or math.abs(offset + level - typical) > NOTABLE
end

-- Forgets the levels of a batch, or with position 0 all of a generator.
local function forget_levels(g, position)
  local key = levels .. ':' .. g
  if tonumber(position) == 0 then
    redis.call('DEL', key)
    return
  end
  for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    if member:match('^%d+ (%d+) ') == tostring(position) then
      redis.call('ZREM', key, member)
    end
  end
end
