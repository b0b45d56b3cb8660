-- uses: retracted
-- keys: leases requests picks terms contexts returned settled settled_order states counts

-- Ends the lease of a pick, and removes the request that a repeated ask would be answered from.
-- Answers whether it was leased. `pick` is its entry in `picks`.
local function release(number, pick)
  local leased = redis.call('ZREM', leases, number) == 1
  if leased then
    redis.call('HDEL', requests, pick:match('^%d+\t([^\t]*)\t'))
  end
  return leased
end

-- Adds a number to a list of at most `limit`. The oldest beyond that is removed, with its entry in `remembered`.
local function queue(list, limit, number, remembered)
  if redis.call('RPUSH', list, number) > limit then
    local oldest = redis.call('LPOP', list)
    redis.call('HDEL', remembered, oldest)
    if remembered == picks then
      redis.call('HDEL', terms, oldest)
      redis.call('HDEL', contexts, oldest)
    end
  end
end

-- Removes a pick and remembers how it ended. `entry` is what a repeat is answered from.
local function conclude(number, entry, limit)
  redis.call('HDEL', picks, number)
  redis.call('HDEL', terms, number)
  redis.call('HDEL', contexts, number)
  redis.call('HSET', settled, number, entry)
  queue(settled_order, limit, number, settled)
end

-- `returned` holds the slices of a generator's sequence for other picks to take, under the number of a pick that ended
-- without samples for them, or under the negative number of a pick that took only a part of what it found.

local SLICES = 8192 -- as in state.py

-- Keeps a slice to be handed out again, unless there are `SLICES` of them.
local function keep_slice(number, g, start, size)
  if redis.call('HLEN', returned) < SLICES or redis.call('HEXISTS', returned, number) == 1 then
    redis.call('HSET', returned, number, string.format('%s %.0f %.0f', g, start, size))
  end
end

-- Stores the slice of a pick that ended without a batch, less its first `rows`, for which it had samples.
local function hand_back(number, pick, rows)
  local g, start, size = pick:match('^(%d+)\t[^\t]*\t(%d+) (%d+)\t')
  rows = tonumber(rows or 0)
  if start and rows < tonumber(size) and redis.call('HGET', states, g) ~= 'retired' then
    keep_slice(number, g, start + rows, size - rows)
  end
end

-- Whether `nonce` is the one that an open pick was made with; `agreed` is its entry in `terms`. A Redis that has lost its
-- last writes assigns a number again, so that one number may stand for two picks.
local function meets(agreed, nonce)
  return agreed:match('^%S+') == nonce
end

-- The answer for a pick that Redis has lost: its number belongs to another pick now, or to none.
local function lost(number)
  return {'gone', 'pick ' .. number .. ' is unknown: Redis has lost the pick that had this number'}
end

-- The answer for a pick that is no longer open: a repeated tell, or give-up, gets the first answer again.
-- `digest` is that of the batch told now, '' where the pick is given up.
local function recall(number, digest, nonce)
  local entry = redis.call('HGET', settled, number)
  if entry then
    local known, answer = entry:match('^([^\t]*)\t(.*)$')
    local refused = known ~= '' and refused_again(answer, known == digest)
    if refused then
      return refused
    elseif known == digest then
      return {'ok', answer, 1}
    elseif known == '' then
      return {'conflict', 'pick ' .. number .. ' was given up: ' .. answer}
    elseif digest == '' then
      return {'conflict', 'pick ' .. number .. ' was told already'}
    end
    return {'conflict', 'pick ' .. number .. ' was told with another batch'}
  end
  if tonumber(number) > 0 and tonumber(number) <= tonumber(redis.call('HGET', counts, 'rounds')) then
    return {'gone', 'pick ' .. number .. ' ended too long ago: its end is no longer known'}
  end
  if nonce ~= '' then
    return lost(number)
  end
  return {'not-found', 'pick ' .. number .. ' was never made'}
end
