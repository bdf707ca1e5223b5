"""Every parser that reads what strangers write: a row each."""
from nova.tests.fuzz import targets_api
from nova.tests.fuzz import targets_http
from nova.tests.fuzz import targets_image
from nova.tests.fuzz import targets_texts

TARGETS = {target.name: target for module in (targets_api, targets_http, targets_image, targets_texts)
           for target in module.TARGETS}
