-- Stands before every script of an experiment, below the line that names its keys.

if redis.call('EXISTS', config) == 0 then
  return {'not-found', 'there is no such experiment'}
end

local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1e6
end

-- A pick stops pending: its lease goes, and with it the request that a repeated ask would be answered from.
local function release(number)
  if redis.call('ZREM', leases, number) == 1 then
    redis.call('HDEL', requests, redis.call('HGET', picks, number):match('^%d+\t([^\t]*)\t'))
  end
end

-- A pick that ends without a batch returns its slice of the prompts, for another pick to take.
local function hand_back(number)
  local g, slice = redis.call('HGET', picks, number):match('^(%d+)\t[^\t]*\t([^\t]+)\t')
  if slice then
    redis.call('HSET', returned, number, g .. ' ' .. slice)
  end
end

-- The answer for a pick that is no longer open. `digest` is that of the batch told now, '' where it is given up.
local function recall(number, digest)
  local entry = redis.call('HGET', settled, number)
  if entry then
    local known, answer = entry:match('^([^\t]*)\t(.*)$')
    if known == digest then
      return {'ok', answer, 1}
    elseif known == '' then
      return {'conflict', 'pick ' .. number .. ' was given up: ' .. answer}
    elseif digest == '' then
      return {'conflict', 'pick ' .. number .. ' was told already'}
    end
    return {'conflict', 'pick ' .. number .. ' was told with another batch'}
  end
  if tonumber(number) > 0 and tonumber(number) <= tonumber(redis.call('HGET', counts, 'low')) then
    return {'gone', 'pick ' .. number .. ' lies too far back to be known'}
  end
  return {'not-found', 'pick ' .. number .. ' was never made'}
end
