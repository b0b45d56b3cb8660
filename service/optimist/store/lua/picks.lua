-- uses: retracted told
-- keys: leases requests picks terms contexts settled settled_order states counts

-- Ends the lease of a pick, and removes the request that a repeated ask would be answered from.
-- Answers whether it was leased. `pick` is its entry in `picks` (keys.py).
local function release(number, pick)
  local leased = redis.call('ZREM', leases, number) == 1
  if leased then
    redis.call('HDEL', requests, pick:match('^%d+\t([^\t]*)\t'))
  end
  return leased
end

-- The nonce that an open pick was made with, by its entry in `terms`. A Redis that has lost its last writes assigns a
-- number again, so that one number may stand for two picks.
local function nonce_in(agreed)
  return agreed:match('^%S+')
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

-- Removes a pick and remembers how it ended: "<nonce>\t<digest>\t<answer>", where a repeat of its tell gets `answer`
-- again; of a pick that was given up the digest is '' and `answer` the reason.
local function conclude(number, digest, answer, limit)
  local entry = table.concat({nonce_in(redis.call('HGET', terms, number)), digest, answer}, '\t')
  redis.call('HDEL', picks, number)
  redis.call('HDEL', terms, number)
  redis.call('HDEL', contexts, number)
  redis.call('HSET', settled, number, entry)
  queue(settled_order, limit, number, settled)
end

-- How many more batches a worker may hand in, its open picks counted as handed in; nil where nothing limits them.
local most_batches
local function batches_left(worker)
  if most_batches == nil then
    most_batches = redis.call('HGET', counts, 'max_batches_per_worker')
  end
  return most_batches and worker ~= '' and most_batches - (redis.call('HGET', counts, 'worker:' .. worker) or 0) or nil
end

-- Counts batches that a worker may hand in, or with less than 0 will not.
local function count_for(worker, by)
  if batches_left(worker) then
    redis.call('HINCRBY', counts, 'worker:' .. worker, by)
    note_later('worker:' .. worker)
  end
end

local function worker_of(pick)
  return pick:match('^%d+\t[^\t]*\t[^\t]*\t([^\t]*)')
end

-- Counts a pick that ended without a batch, or with -1 one that was told all the same.
local function count_unanswered(pick, by)
  redis.call('HINCRBY', counts, pick:match('^%d+') .. ':unanswered', by)
  count_for(worker_of(pick), -by)
end

-- Returns the slice of a pick that ended without a batch, less its first `rows`, for which it had samples, and less what
-- was told meanwhile. Answers whether anything was.
local function hand_back(pick, rows)
  if not rows then
    count_unanswered(pick, 1)
  end
  local g, start, size = pick:match('^(%d+)\t[^\t]*\t(%d+) (%d+)\t')
  rows = tonumber(rows or 0)
  if not start or rows >= tonumber(size) or redis.call('HGET', states, g) == 'retired' then
    return false
  end
  local runs = untold(g, start + rows, size - rows)
  keep_returned(g, runs)
  return runs[2] ~= size - rows
end

-- The answer for a number, or a number with this nonce, that no pick has: it is wrong, or Redis has lost the pick.
local function lost(number, how)
  return {'gone', 'no pick ' .. number .. ' was given' .. (how or ' with this nonce') .. ', or Redis has lost it'}
end

-- The answer for a pick that is no longer open: a repeated tell, or give-up, gets the first answer again.
-- `digest` is that of the batch told now, '' where the pick is given up. `nonce` may be '' only then.
local function recall(number, digest, nonce)
  local entry = redis.call('HGET', settled, number)
  if entry then
    local made_by, known, answer = entry:match('^([^\t]*)\t([^\t]*)\t(.*)$')
    -- Equal digests do not show that it is the same pick: a batch may be a single 0 or 1.
    if made_by ~= nonce and (nonce ~= '' or digest ~= '') then
      return lost(number)
    end
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
    return lost(number, '')
  end
  return {'not-found', 'pick ' .. number .. ' was never made'}
end
