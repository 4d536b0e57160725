"""Names for namespaces that no other run uses."""

import random
import string


def random_suffix(length):
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=length - 1)) + "x"
