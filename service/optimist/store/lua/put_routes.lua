-- uses: prelude parts
-- keys: routes scoring_errors counts
-- args: token model table_text point kernels channel experiment

-- Publishes a model of contexts, a table, or both, made of `parts`; '' for none. point: what charts keep of the table, ''
-- for nothing. `routes` holds the fields
--   made    "<name> <parts>" of the model; `counts` has the name, which no other model has, as made_routes
--   model   its bytes
--   of      the parts of the table
--   table   its text
-- Answers 1 if these are now model and table, 0, with nothing stored, if one of a later position exists. Picks are made
-- from the model: it changes the version, and is announced.
if not holds('routes', token) then
  return superseded
end
local read, total = read_parts()
local made, of = unpack(redis.call('HMGET', routes, 'made', 'of'))
local made_of = made and made:match('^%S+ (%S+)')

local has_model = model == '' or made_of == read and redis.call('HGET', routes, 'model') == model
local has_table = table_text == '' or of == read and redis.call('HGET', routes, 'table') == table_text
if has_model and has_table then
  return {'ok', 1}
elseif not has_model and made_of and knows_more(made_of) or not has_table and of and knows_more(of) then
  return {'ok', 0}
elseif not (are_current('') and fits(kernels, '')) then
  return outdated
end
local fields = {}
if not has_model then
  made = new_name(total)
  fields = {'made', made .. ' ' .. read, 'model', model}
end
if not has_table then
  fields[#fields + 1], fields[#fields + 2] = 'of', read
  fields[#fields + 1], fields[#fields + 2] = 'table', table_text
end
redis.call('HSET', routes, unpack(fields))
redis.call('HDEL', scoring_errors, 'routes')
if not has_table then
  keep_point('routes', read, total, point)
end
if not has_model then
  redis.call('HSET', counts, 'made_routes', made)
  changed()
  redis.call('PUBLISH', channel, string.format('%s 0 %d', experiment, total))
end
return {'ok', 1}
