"""What the Python drivers share: one JSON object a line in, one a line out."""

import base64
import faulthandler
import json
import signal
import sys
import traceback


def dec(text):
    """Bytes of a base64 text; None stays None."""
    return None if text is None else base64.b64decode(text)


def enc(data):
    """Base64 text of bytes; None stays None."""
    return None if data is None else base64.b64encode(data).decode()


def record(partition, offset, timestamp, key, value, headers):
    return {
        "p": partition,
        "o": offset,
        "t": timestamp,
        "k": enc(key),
        "v": enc(value),
        "h": [[k, enc(v)] for k, v in headers or []],
    }


def serve(ops):
    """Answers each line with what the operation of its name returns. On SIGQUIT it says where its threads are, and ends."""
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGQUIT, chain=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = ops[request["op"]](request) or {}
        except Exception as e:  # told to the test, which knows what to expect
            traceback.print_exc()
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)
