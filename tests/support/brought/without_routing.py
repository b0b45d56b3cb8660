"""Makes the folder of routing unimportable, as for a reader who skips it: nothing else of Optimist may need it."""

import sys
from importlib.abc import MetaPathFinder

from optimist.experiments.goals import registry
from optimist.experiments.goals.commands import COMMANDS
from optimist_client import goals


class Gone(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if f"{fullname}.".startswith("optimist.routing."):
            raise ModuleNotFoundError(f"{fullname} is gone", name=fullname)


assert not [name for name in sys.modules if f"{name}.".startswith("optimist.routing.")]
sys.meta_path.insert(0, Gone())
COMMANDS.clear()
del registry._GOALS["route"], goals._DECLARED["route"]
