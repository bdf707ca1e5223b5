"""The page of what the EC2 API refuses as a whole, from the rows of nova/api/ec2/unsupported.py."""
import rst

from nova.api.ec2 import unsupported


def page():
    lines = [*rst.heading('Operations of EC2 that are refused'),
             'With ``UnsupportedOperation`` and the reason, before anything is looked up. :doc:`../user/ec2` has what '
             'there is.']
    lines += rst.table(('Reason', 'Operations'), [
        (rst.escaped(reason), ', '.join(sorted(names.split()))) for reason, names in unsupported.REASONS], '40 60')
    return lines
