-- other keys: head tail ...
-- args: expected_seq expected_chain new entry kept frees who takes_turn seconds channel experiment
-- args: reads*(place kind field rule value) writes*

-- Commits a step of an experiment whose tables Python changes, if the experiment is as the step was decided from. It knows
-- no table. The keys are those that the step reads and writes; a place is the number of one of them.
--
-- head is a hash: `seq` and `chain`, how many steps there were and a digest of all, and `before`, the chain before the last
-- one; `turn` and `till`, whose turn it is, and until when, and `next`, whose comes then. tail is a stream of the newest
-- steps, `kept` of them, each with its chain and entry.
--
-- new, entry: of the step; '' where nothing is to be written. frees: 1 where it makes room. who: whoever had asked for the
-- turn, and gives it back with this step; '' for nobody. takes_turn: 1 where the turn is asked for; nobody else then commits for
-- so many seconds at most. reads: values that the step assumes (`rule` equal or absent), or needs (any). A kind is a field
-- of a hash, the whole hash, a list, an entry of a stream without its bodies, or the position of the first one. writes: of
-- each the number of its arguments, a command, a place and the arguments.
--
-- Answers 'done' where the step was written, now or before; 'wait' where it is only somebody else's turn; else 'moved'. Then
-- head, time, the entries after the expected head (nil where it is not known), and the values.
local names = {'seq', 'chain', 'before', 'turn', 'till', 'next'}
local seq, chain, before, turn, till, next_one = unpack(redis.call('HMGET', head, unpack(names)))
seq, chain, turn, next_one = seq or '0', chain or '', turn or '', next_one or ''
local time = redis.call('TIME')
time = time[1] + time[2] / 1e6

local function value_of(read)
  local key = KEYS[tonumber(read.place)]
  if read.kind == 'field' then
    return redis.call('HGET', key, read.field)
  elseif read.kind == 'whole' then
    local found = redis.call('HGETALL', key)
    return #found > 0 and found
  elseif read.kind == 'list' then
    local found = redis.call('LRANGE', key, 0, -1)
    return #found > 0 and found
  elseif read.kind == 'first' then
    local first = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
    return first and first[1]:match('^%d+')
  end
  local stored = redis.call('XRANGE', key, read.field .. '-0', read.field .. '-0')[1]
  local fields = {}
  for i = 1, stored and #stored[2] or 0, 2 do
    if stored[2][i] ~= 'body' and stored[2][i] ~= 'context' then
      fields[#fields + 1], fields[#fields + 2] = stored[2][i], stored[2][i + 1]
    end
  end
  return stored and fields
end

local values, fits = {}, true
for i, read in ipairs(reads) do
  local found = value_of(read)
  values[i] = found or false
  if read.rule == 'equal' and found ~= read.value or read.rule == 'absent' and found then
    fits = false
  end
end

local at = 0
local function take()
  at = at + 1
  return writes[at]
end

-- Sets fields of a hash that holds the newest fields, whose order is a list beside it. Those of the same name in other hashes
-- go with the oldest.
local function put_newest(key, last)
  local limit, beside = tonumber(take()), {}
  for i = 1, tonumber(take()) do
    beside[i] = KEYS[tonumber(take())]
  end
  while at < last do
    local field, value = take(), take()
    if redis.call('HSET', key, field, value) == 1 and redis.call('RPUSH', key .. ':order', field) > limit then
      local oldest = redis.call('LPOP', key .. ':order')
      for _, hash in ipairs({key, unpack(beside)}) do
        redis.call('HDEL', hash, oldest)
      end
    end
  end
end

local function write()
  local count, command, key = tonumber(take()), take(), KEYS[tonumber(take())]
  local last = at + count
  if command == 'RING' then
    put_newest(key, last)
  elseif command == 'DUE' then
    redis.call('PUBLISH', channel, experiment .. ' ' .. take() .. ' ' .. take())
  else
    redis.call(command, key, unpack(writes, at + 1, last))
  end
  at = last
end

local is_same = seq == expected_seq and chain == expected_chain
local is_repeat = new ~= '' and chain == new and before == expected_chain
local left = tonumber(till or 0) - time
local is_others = turn ~= '' and turn ~= who and left > 0 and left < tonumber(seconds)
local now = string.format('%.6f', time)

local function give_turn(to, after)
  redis.call('HSET', head, 'turn', to, 'till', string.format('%.6f', time + seconds), 'next', after)
end

if takes_turn == '1' and seq ~= '0' then
  redis.call('PERSIST', head) -- while memory is full Redis accepts writes after one that takes no room
  if not is_others then
    give_turn(who, next_one ~= who and next_one or '')
  elseif next_one == '' then
    redis.call('HSET', head, 'next', who)
  end
elseif is_repeat then
  return {'ok', 'done', seq, chain, now, {}, values}
elseif is_same and fits and not (new ~= '' and is_others) then
  if new ~= '' then
    seq, chain = string.format('%.0f', seq + 1), new
    if frees == '1' then
      redis.call('PERSIST', head)
    end
    redis.call('XADD', tail, 'MAXLEN', kept, seq .. '-0', 'chain', new, 'entry', entry)
    redis.call('HSET', head, 'seq', seq, 'chain', new, 'before', expected_chain)
  end
  if turn ~= '' and not is_others and (new ~= '' or who ~= '') then
    give_turn(next_one, '')
  end
  while at < #writes do
    write()
  end
  return {'ok', 'done', seq, chain, now, {}, values}
end

-- What the caller has missed, if what it knows is a part of this history.
local missed, from = {}, tonumber(expected_seq)
if not is_same then
  missed = false
  local found = from <= tonumber(seq) and redis.call('XRANGE', tail, math.max(from, 1) .. '-0', '+') or {}
  if found[1] and from == 0 and found[1][1] == '1-0' then
    missed = found
  elseif found[1] and from > 0 and found[1][1] == from .. '-0' and found[1][2][2] == expected_chain then
    table.remove(found, 1)
    missed = found
  end
end
local waits = is_others and (takes_turn == '1' or is_same and fits)
return {'ok', waits and 'wait' or is_same and fits and 'done' or 'moved', seq, chain, now, missed, values}
