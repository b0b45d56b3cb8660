-- uses: prelude picks
-- keys: previews settled terms
-- args: number nonce max_kept items*(place index rank about body)

-- Keeps previews of samples of a pick that was told. max_kept: how many are kept of one generator. index: of the sample in
-- the generator's sequence, '' for none. about: text of the caller. Answers the generator, and how many of these
-- previews are there now. nonce: the pick's, or '' for whichever pick has the number.

-- Of each generator, previews:<g> has "<position> <rank> <index>\t<about>" by "<pick>-<place>";
-- previews:<g>:bodies has the bytes by the same names, and previews:<g>:places these names by index. A given `rank` says
-- which ones are kept, whenever they came.

local made_by, digest, answer = (redis.call('HGET', settled, number) or ''):match('^([^\t]*)\t([^\t]*)\t(.*)$')
local agreed = redis.call('HGET', terms, number)
if not answer and not agreed then
  return {'gone', 'pick ' .. number .. ' is not known, or no longer'}
elseif nonce ~= '' and nonce ~= (made_by or nonce_in(agreed)) then
  return lost(number)
elseif agreed then
  return {'conflict', 'pick ' .. number .. ' has no batch yet: previews are sent after it'}
elseif digest == '' then
  return {'conflict', 'pick ' .. number .. ' was given up: it has no samples'}
end
local refused = refused_again(answer, true)
if refused then
  return refused
end
local g, position = batch_in(answer)
if not g then
  return {'conflict', 'nothing of the batch of pick ' .. number .. ' counts: its samples were told before'}
end
local counting, samples, uncounted, counted = answer:match('^%d+ %d+ (%d+) (%d+) %d+ %d+ %d (%d+)(.*)$')
local rows, runs = counting + uncounted, runs_in(counted)

-- Whether the sample at a place of the batch counts.
local function counts_at(place)
  for i = 1, #runs, 2 do
    if place >= runs[i] and place < runs[i] + runs[i + 1] then
      return true
    end
  end
  return #runs == 0
end
local list, bodies, places = previews .. ':' .. g, previews .. ':' .. g .. ':bodies', previews .. ':' .. g .. ':places'

-- One half are the samples of least rank, exponential with a rate of 1 / (index + 1). A rank depends on the index alone,
-- so that generators keep the same indices, and early ones are favoured, which slow generators have, too. Without an
-- index the number of the sample takes its place. 48 bits of a digest are a number between 0 and 1.
local function rank_of(seed, at)
  return -math.log((tonumber(redis.sha1hex(seed):sub(1, 12), 16) + 1) / 2 ^ 48) * (at + 1)
end

local all, known = {}, {}
local stored = redis.call('HGETALL', list)
for i = 1, #stored, 2 do
  local seq, rank, index = stored[i + 1]:match('^(%d+) (%S+) (%d*)\t')
  known[stored[i]] = true
  all[#all + 1] = {name = stored[i], seq = tonumber(seq), rank = tonumber(rank), index = index}
end
local new, ranked = {}, false
for _, item in ipairs(items) do
  local name = number .. '-' .. item.place
  if tonumber(item.place) >= rows then
    return {'refused', 'place: pick ' .. number .. ' was told ' .. rows .. ' samples, counted from 0; got ' .. item.place}
  elseif not known[name] and counts_at(tonumber(item.place)) then
    local seed = item.index ~= '' and item.index or name
    local rank = tonumber(item.rank) or rank_of(seed, tonumber(item.index) or samples - rows + item.place)
    ranked = ranked or item.rank ~= ''
    known[name], new[name] = true, item
    item.entry = string.format('%s %.17g %s\t%s', position, rank, item.index, item.about)
    all[#all + 1] = {name = name, seq = tonumber(position), rank = rank}
  end
end

-- The samples of least rank, then the newest.
table.sort(all, function(a, b) return a.rank < b.rank end)
local kept, left = {}, {}
for i, one in ipairs(all) do
  if i <= (ranked and tonumber(max_kept) or math.floor(max_kept / 2)) then
    kept[one.name] = true
  else
    left[#left + 1] = one
  end
end
table.sort(left, function(a, b) return a.seq > b.seq or (a.seq == b.seq and a.rank < b.rank) end)
for i = 1, ranked and 0 or math.min(#left, max_kept - math.floor(max_kept / 2)) do
  kept[left[i].name] = true
end

for name, item in pairs(new) do
  if kept[name] then
    redis.call('HSET', bodies, name, item.body)
    redis.call('HSET', list, name, item.entry)
    if item.index ~= '' then
      redis.call('HSET', places, item.index, name)
    end
  end
end
for _, one in ipairs(all) do
  if not kept[one.name] and not new[one.name] then
    redis.call('HDEL', list, one.name)
    redis.call('HDEL', bodies, one.name)
    redis.call('HDEL', places, one.index)
  end
end
local here = 0
for _, item in ipairs(items) do
  here = here + (kept[number .. '-' .. item.place] and 1 or 0)
end
return {'ok', g, here}
