"""What tests share with nova/tests/functional/test_floating_addresses.py."""
def make(client, kind, **values):
    answer = client.post(f'/network/v2.0/{kind}', {kind[:-1]: values})
    assert answer.status_code == 201, answer.text
    return answer.json()[kind[:-1]]
