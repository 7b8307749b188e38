"""`Faults`: what is set up to go wrong with the next requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.protocol.schema import Response
    from pykafka.testing.call import Api, Call


class Faults:
    """The faults of a cluster, in the order in which they were set up."""

    def around(self, call: Call, api: Api) -> Response | None:
        """Answer a request, with what is set up for it; called with the lock held.

        :raises HungUpError: the connection is cut
        """
        return api.answer(call, call.request)
