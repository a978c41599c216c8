"sha256-9fk7G/+wTIkIwtClPLnobtml1QJ1bomLv0plOZo4VLg="
